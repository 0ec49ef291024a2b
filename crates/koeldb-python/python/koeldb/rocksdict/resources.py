"""What databases share or use: caches, limits of memory, directories, the environment."""

from __future__ import annotations

import koeldb


class Cache:
    """A cache of blocks."""

    def __init__(self, capacity: int) -> None:
        self._cache = koeldb.Cache(capacity)

    @staticmethod
    def new_hyper_clock_cache(capacity: int, estimated_entry_charge: int) -> Cache:
        """Makes a cache whose hits take no lock. The charge of an entry need not be known."""
        cache = Cache.__new__(Cache)
        cache._cache = koeldb.Cache(capacity, clock=True)
        return cache

    def get_usage(self) -> int:
        """The bytes that it keeps."""
        return self._cache.usage

    def get_pinned_usage(self) -> int:
        """The bytes of blocks in use."""
        return self._cache.pinned_usage

    def set_capacity(self, capacity: int) -> None:
        """Changes the bytes that it may keep."""
        self._cache.set_capacity(capacity)


class WriteBufferManager:
    """A limit of the memory of memtables."""

    def __init__(self, buffer_size: int, allow_stall: bool) -> None:
        self._manager = koeldb.WriteBufferManager(buffer_size, allow_stall)

    @staticmethod
    def new_write_buffer_manager_with_cache(
        buffer_size: int, allow_stall: bool, cache: Cache
    ) -> WriteBufferManager:
        """Makes a limit whose memory counts as that of a cache."""
        manager = WriteBufferManager.__new__(WriteBufferManager)
        manager._manager = koeldb.WriteBufferManager(buffer_size, allow_stall, cache=cache._cache)
        return manager

    def get_usage(self) -> int:
        """The bytes of memtables."""
        return self._manager.usage

    def get_buffer_size(self) -> int:
        """The limit in bytes."""
        return self._manager.buffer_size

    def set_buffer_size(self, new_size: int) -> None:
        """Changes the limit."""
        self._manager.set_buffer_size(new_size)

    def set_allow_stall(self, allow_stall: bool) -> None:
        """Sets whether writes wait above the limit."""
        self._manager.set_allow_stall(allow_stall)

    def enabled(self) -> bool:
        """Whether there is a limit."""
        return self._manager.buffer_size > 0


class DBPath:
    """A directory of tables, and the bytes after which the next one is used."""

    def __init__(self, path: str, target_size: int) -> None:
        self.path = path
        self.target_size = target_size


class Env:
    """The environment: the operating system's.

    Threads are set by `Options.set_max_background_jobs`.
    """

    @staticmethod
    def mem_env() -> Env:
        """An environment in memory, which does not exist here."""
        raise NotImplementedError("Env.mem_env: there are no databases in memory alone")

    def set_background_threads(self, num_threads: int) -> None:
        """Has no effect."""

    def set_high_priority_background_threads(self, n: int) -> None:
        """Has no effect."""

    def set_low_priority_background_threads(self, n: int) -> None:
        """Has no effect."""

    def set_bottom_priority_background_threads(self, n: int) -> None:
        """Has no effect."""

    def join_all_threads(self) -> None:
        """Has no effect: a database that is closed has no threads."""

    def lower_thread_pool_io_priority(self) -> None:
        """Has no effect."""

    def lower_high_priority_thread_pool_io_priority(self) -> None:
        """Has no effect."""

    def lower_thread_pool_cpu_priority(self) -> None:
        """Has no effect."""

    def lower_high_priority_thread_pool_cpu_priority(self) -> None:
        """Has no effect."""
