//! The sizes of parts, as users write them.

/// In the place of a size: all multiprocessors that are left.
pub(super) const REST: u32 = u32::MAX;

/// The sizes in the words of the program's source.
pub(super) fn describe(sizes: &[u32]) -> String {
    let name = |size: &u32| if *size == REST { "REST".to_owned() } else { size.to_string() };
    format!("[{}]", sizes.iter().map(name).collect::<Vec<_>>().join(", "))
}
