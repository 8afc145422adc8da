//! All tests of this crate in one executable, except the tests that count memory.

#[path = "../common/mod.rs"]
mod common;
mod containers;
#[path = "../common/cubin.rs"]
mod cubin;
mod embedded;
mod hostile;
mod images;
#[path = "../common/packed.rs"]
mod packed;
mod ptx;
mod separable;
mod stack;
mod unread;
#[path = "../common/watch.rs"]
mod watch;
