//! Tests of the table builder.
