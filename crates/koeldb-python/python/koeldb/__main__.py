"""`python -m koeldb DIR`: a shell on a directory of KoelDB or RocksDB."""

from .shell import main

if __name__ == "__main__":
    raise SystemExit(main())
