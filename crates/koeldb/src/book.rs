//! Compiles and runs the programs of `docs/book`.

macro_rules! chapters {
    ($($chapter:ident $path:literal;)*) => {$(
        #[doc = include_str!(concat!("../../../docs/book/", $path))]
        struct $chapter;
    )*};
}

chapters! {
    Start "start.md";
    Data "data.md";
    Durability "durability.md";
    Memory "tuning/memory.md";
    Slow "tuning/slow.md";
    Overwrite "tuning/overwrite.md";
    Mixed "tuning/mixed.md";
    Many "tuning/many.md";
    Operations "operations.md";
    Transactions "transactions.md";
    ComingFrom "coming-from.md";
}
