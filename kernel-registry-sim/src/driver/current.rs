//! The context that is current in a thread.

use std::cell::{Cell, RefCell};

use super::handles::Handle;
use super::result::{Answer, Code};

thread_local! {
    /// The current context, or 0. It has no destructor, because destructors of other thread-locals may call the driver.
    static CURRENT: Cell<Handle> = const { Cell::new(0) };
    /// The contexts below it on the stack, the next one last.
    static BELOW: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

/// The current context of this thread, and the stack below it.
pub(super) struct CurrentContext;

impl CurrentContext {
    pub(super) fn get() -> Answer<Handle> {
        Some(CURRENT.get()).filter(|context| *context != 0).ok_or(Code::INVALID_CONTEXT)
    }

    /// Replaces the top of the stack.
    pub(super) fn set(context: Handle) {
        CURRENT.set(context);
    }

    pub(super) fn push(context: Handle) {
        let before = CURRENT.replace(context);
        if before != 0 {
            // While the thread ends the stack may be gone already.
            let _ = BELOW.try_with(|below| below.borrow_mut().push(before));
        }
    }

    pub(super) fn pop() -> Answer<Handle> {
        let popped = Self::get()?;
        let below = BELOW.try_with(|below| below.borrow_mut().pop());
        CURRENT.set(below.ok().flatten().unwrap_or(0));
        Ok(popped)
    }
}
