//! Lists all rows of the census.

use crate::row::Row;
use crate::{calls, first, host, launched, launches, limits, loading, locked, stack, waiting};

/// Returns all rows, ordered by subject.
pub(crate) fn list_rows() -> Vec<Row> {
    let groups = [
        loading::rows(),
        first::rows(),
        stack::rows(),
        launches::rows(),
        waiting::rows(),
        launched::rows(),
        calls::rows(),
        host::rows(),
        limits::rows(),
        locked::rows(),
    ];
    groups.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::row::Subject;

    #[test]
    fn each_row_has_its_own_plain_name() {
        let rows = list_rows();
        let names: BTreeSet<_> = rows.iter().map(|row| &*row.name).collect();
        assert_eq!(names.len(), rows.len());
        for name in names {
            let (group, rest) = name.split_once('/').unwrap_or_else(|| panic!("{name}: no group"));
            let is_plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            assert!(is_plain(group) && is_plain(rest) && !rest.is_empty(), "{name}");
        }
    }

    /// Only launches may have a reason why warming can't help, because warming doesn't affect other host
    /// calls.
    #[test]
    fn only_launches_can_wait_after_warming() {
        assert!(list_rows().iter().all(|row| row.remains.is_none() || row.subject != Subject::HostCall));
    }
}
