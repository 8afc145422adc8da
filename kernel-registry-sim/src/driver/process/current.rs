//! The context that is current in a thread.

use std::cell::{Cell, RefCell};

use crate::driver::handles::Handle;
use crate::driver::report::failures::not_simulated;
use crate::driver::result::{Answer, Code};

thread_local! {
    /// The current context, or 0s. It has no destructor, because destructors of other thread-locals may call the driver.
    static CURRENT: Cell<CurrentContext> = const { Cell::new(CurrentContext { context: 0, green: 0 }) };
    /// The contexts below it on the stack, the next one last.
    static BELOW: RefCell<Vec<CurrentContext>> = const { RefCell::new(Vec::new()) };
}

/// The current context of this thread, and the stack below it.
#[derive(Clone, Copy)]
pub(crate) struct CurrentContext {
    pub(crate) context: Handle,
    /// The green context, or 0. Its `context` is the primary one of the device.
    pub(crate) green: Handle,
}

impl CurrentContext {
    /// The current context, for functions that do the same in every context.
    pub(crate) fn peek() -> Option<CurrentContext> {
        Some(CURRENT.get()).filter(|current| current.context != 0)
    }

    /// The current context, for functions that are not simulated in a green one.
    pub(crate) fn get() -> Answer<Handle> {
        match Self::peek().ok_or(Code::INVALID_CONTEXT)? {
            CurrentContext { context, green: 0 } => Ok(context),
            _ => not_simulated("a function that is called while a green context is current"),
        }
    }

    /// The handle that the caller knows.
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
            // While the thread ends the stack may be gone already.
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
