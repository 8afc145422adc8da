//! Stores the driver's objects by handle. Handles are numbers and not addresses, so a stale or invented handle is an
//! error and is never dereferenced.

use std::collections::BTreeMap;

use super::result::{Answer, Code};

/// A number that callers have in place of a pointer. 0 is null, and 1 and 2 are the default streams.
pub(crate) type Handle = usize;

/// Objects of one kind, by handle.
pub(crate) struct Handles<T> {
    /// The error for a handle without an object.
    unknown: Code,
    next: Handle,
    objects: BTreeMap<Handle, T>,
}

/// The difference between two consecutive handles.
const STEP: usize = 64;

impl<T> Handles<T> {
    /// Makes an empty table. Each kind of object has its own range of handles, so a handle is never taken for an object
    /// of another kind.
    pub(crate) fn new(kind: usize) -> Self {
        Handles { unknown: Code::INVALID_HANDLE, next: (kind << 40) | STEP, objects: BTreeMap::new() }
    }

    /// Makes an empty table of objects for which the driver answers a wrong handle with `CUDA_ERROR_INVALID_VALUE`.
    pub(crate) fn of_values(kind: usize) -> Self {
        Handles { unknown: Code::INVALID_VALUE, ..Handles::new(kind) }
    }

    /// Returns a handle that was never used.
    pub(crate) fn reserve(&mut self) -> Handle {
        self.next += STEP;
        self.next - STEP
    }

    pub(crate) fn insert(&mut self, object: T) -> Handle {
        let handle = self.reserve();
        self.objects.insert(handle, object);
        handle
    }

    /// Inserts an object under a handle that was reserved, or that a removed object had.
    pub(crate) fn insert_at(&mut self, handle: Handle, object: T) {
        self.objects.insert(handle, object);
    }

    /// Returns the lowest handle that has no object and for which `is_kept` is false.
    pub(crate) fn lowest_free(&mut self, is_kept: impl Fn(Handle) -> bool) -> Handle {
        let first = (self.next >> 40 << 40) | STEP;
        let free = |handle: &Handle| !self.objects.contains_key(handle) && !is_kept(*handle);
        match (first..self.next).step_by(STEP).find(free) {
            Some(handle) => handle,
            None => self.reserve(),
        }
    }

    /// Returns whether there was ever an object with this handle.
    pub(crate) fn has_given(&self, handle: Handle) -> bool {
        handle < self.next && handle >> 40 == self.next >> 40
    }

    pub(crate) fn get(&self, handle: Handle) -> Answer<&T> {
        self.objects.get(&handle).ok_or(self.unknown)
    }

    pub(crate) fn get_mut(&mut self, handle: Handle) -> Answer<&mut T> {
        self.objects.get_mut(&handle).ok_or(self.unknown)
    }

    pub(crate) fn remove(&mut self, handle: Handle) -> Answer<T> {
        self.objects.remove(&handle).ok_or(self.unknown)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        self.objects.iter().map(|(handle, object)| (*handle, object))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Handle, &mut T)> {
        self.objects.iter_mut().map(|(handle, object)| (*handle, object))
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.objects.retain(|_, object| keep(object));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_handles_and_those_of_another_kind_are_errors() {
        let (mut numbers, letters) = (Handles::new(1), Handles::<char>::new(2));
        let one = numbers.insert(1);
        assert_eq!(numbers.get(one), Ok(&1));
        assert_eq!(letters.get(one), Err(Code::INVALID_HANDLE));
        assert_eq!(numbers.remove(one), Ok(1));
        assert_eq!(numbers.get(one), Err(Code::INVALID_HANDLE));
        assert_ne!(numbers.insert(2), one);
        assert!(numbers.has_given(one) && !letters.has_given(one));
    }
}
