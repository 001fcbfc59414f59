//! The rules of typed configuration, on whole objects.

mod templates;
