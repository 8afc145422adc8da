//! Integration tests are in `tests/`; what they share is here.
