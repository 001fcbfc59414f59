//! Stories and suites on real parts live in `tests/it`; this library is empty on purpose.
