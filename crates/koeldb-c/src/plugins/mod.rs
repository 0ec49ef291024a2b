//! Plug-ins in C: comparators, merge operators, filters, listeners.
