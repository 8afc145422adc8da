//! Keeps each thread's stack of current contexts.

use std::cell::{Cell, RefCell};

use crate::driver::handles::Handle;
use crate::driver::report::failures::not_simulated;
use crate::driver::result::{Answer, Code};

thread_local! {
    /// The top of the stack, or zeros if it's empty. A `Cell`, because destructors of other thread-locals may call the
    /// driver, and a thread-local without a destructor stays usable until the thread has ended.
    static CURRENT: Cell<CurrentContext> = const { Cell::new(CurrentContext { context: 0, green: 0 }) };
    /// The contexts below the top of the stack, the uppermost last.
    static BELOW: RefCell<Vec<CurrentContext>> = const { RefCell::new(Vec::new()) };
}

/// An entry of a thread's stack of contexts.
#[derive(Clone, Copy)]
pub(crate) struct CurrentContext {
    pub(crate) context: Handle,
    /// The handle of the green context, or 0. With a green context, `context` is the primary context of its device.
    pub(crate) green: Handle,
}

impl CurrentContext {
    /// Returns the current context, for functions that work the same in green contexts.
    pub(crate) fn peek() -> Option<CurrentContext> {
        Some(CURRENT.get()).filter(|current| current.context != 0)
    }

    /// Returns the current context, for functions that are not simulated in a green context.
    pub(crate) fn get() -> Answer<Handle> {
        match Self::peek().ok_or(Code::INVALID_CONTEXT)? {
            CurrentContext { context, green: 0 } => Ok(context),
            _ => not_simulated("a function that is called while a green context is current"),
        }
    }

    /// Returns the handle by which the program knows this context.
    pub(crate) fn handle(self) -> Handle {
        if self.green != 0 { self.green } else { self.context }
    }

    /// Replaces the top of the stack.
    pub(crate) fn set(self) {
        CURRENT.set(self);
    }

    pub(crate) fn push(self) {
        let before = CURRENT.replace(self);
        if before.context != 0 {
            // While the thread ends, `BELOW` may already be destroyed.
            let _ = BELOW.try_with(|below| below.borrow_mut().push(before));
        }
    }

    pub(crate) fn pop() -> Answer<Handle> {
        let popped = Self::peek().ok_or(Code::INVALID_CONTEXT)?;
        let below = BELOW.try_with(|below| below.borrow_mut().pop());
        CURRENT.set(below.ok().flatten().unwrap_or(CurrentContext { context: 0, green: 0 }));
        Ok(popped.handle())
    }
}
