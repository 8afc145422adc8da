//! The rights of a process over files. A process can put a link or a device in the place of a file that this command
//! looks for, and root can open more than the process can.

use std::marker::PhantomData;

/// The user and the group of a process that own the files it makes.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    pub(super) user: u32,
    pub(super) group: u32,
}

/// The user and the group with which this thread opens files, until this is dropped. The thread keeps its supplementary groups.
pub(super) struct Rights {
    before: Owner,
    /// It's dropped by the thread that made it.
    _thread: PhantomData<*const ()>,
}

impl Rights {
    /// Without the right to act for another user this changes nothing.
    pub(super) fn assume(owner: Owner) -> Self {
        Rights { before: Self::set(owner), _thread: PhantomData }
    }

    /// Sets the user and the group, and returns those before.
    fn set(owner: Owner) -> Owner {
        // SAFETY: the calls take numbers, and change what this thread may do with files.
        let (group, user) = unsafe { (libc::setfsgid(owner.group), libc::setfsuid(owner.user)) };
        Owner { user: user.cast_unsigned(), group: group.cast_unsigned() }
    }
}

impl Drop for Rights {
    fn drop(&mut self) {
        Self::set(self.before);
    }
}
