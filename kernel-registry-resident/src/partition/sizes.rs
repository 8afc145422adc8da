//! Defines the value of `REST`, and how errors show the sizes of parts.

/// A size that means all multiprocessors that are left.
pub(super) const REST: u32 = u32::MAX;

/// Returns the sizes as the program's source writes them: `[8, REST]`.
pub(super) fn describe(sizes: &[u32]) -> String {
    let name = |size: &u32| if *size == REST { "REST".to_owned() } else { size.to_string() };
    format!("[{}]", sizes.iter().map(name).collect::<Vec<_>>().join(", "))
}
