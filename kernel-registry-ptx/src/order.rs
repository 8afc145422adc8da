//! Memory orders and scopes, as PTX's memory model defines them.

use std::fmt;

/// How an access is ordered with those of other threads, and for which threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    pub strength: Strength,
    pub scope: Scope,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Strength {
    /// No other thread may access the same memory unless something else orders both accesses.
    #[default]
    Weak,
    /// Other threads may access the same memory. `.volatile` is as strong, at the scope of the system.
    Relaxed,
    Acquire,
    Release,
    AcquireRelease,
}

/// The threads for which an order holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// The threads of the block.
    #[default]
    Block,
    /// The threads of the cluster.
    Cluster,
    /// All threads of the device.
    Device,
    /// All threads of all devices and of the host.
    System,
}

impl Order {
    const fn new(strength: Strength, scope: Scope) -> Self {
        Self { strength, scope }
    }

    /// Returns the order of the statement with this opcode: its name and its modifiers.
    pub(crate) fn from_opcode(opcode: &[&str]) -> Self {
        let has = |modifier: &str| opcode.contains(&modifier);
        let scope = [("sys", Scope::System), ("gpu", Scope::Device), ("gl", Scope::Device)]
            .into_iter()
            .chain([("cluster", Scope::Cluster), ("cta", Scope::Block)])
            .find_map(|(name, scope)| has(name).then_some(scope));
        let named = [("acq_rel", Strength::AcquireRelease), ("sc", Strength::AcquireRelease)]
            .into_iter()
            .chain([
                ("acquire", Strength::Acquire),
                ("release", Strength::Release),
                ("relaxed", Strength::Relaxed),
            ])
            .find_map(|(name, strength)| has(name).then_some(strength));
        match opcode.first().copied().unwrap_or_default() {
            // A proxy fence orders accesses of one thread by different paths.
            "fence" if has("proxy") => Self::default(),
            "membar" => Self::new(Strength::AcquireRelease, scope.unwrap_or(Scope::Device)),
            "mbarrier" if has("init") || has("inval") => Self::default(),
            "mbarrier" => {
                let waits = has("test_wait") || has("try_wait");
                let usual = if waits { Strength::Acquire } else { Strength::Release };
                Self::new(named.unwrap_or(usual), scope.unwrap_or(Scope::Block))
            }
            // What arrives at an `mbarrier` when the copy is done. The copy itself is weak.
            "cp" => Self::new(Strength::Release, Scope::Cluster),
            "barrier" if has("arrive") => Self::new(named.unwrap_or(Strength::Release), Scope::Cluster),
            "barrier" => Self::new(named.unwrap_or(Strength::Acquire), Scope::Cluster),
            _ if has("volatile") || has("mmio") => Self::new(Strength::Relaxed, Scope::System),
            "atom" | "red" => Self::new(named.unwrap_or(Strength::Relaxed), scope.unwrap_or(Scope::Device)),
            _ => Self::new(named.unwrap_or_default(), scope.unwrap_or(Scope::System)),
        }
    }

    /// Returns whether earlier accesses of the thread are visible to threads that see this one.
    pub(crate) fn releases(self) -> bool {
        matches!(self.strength, Strength::Release | Strength::AcquireRelease)
    }

    /// Returns whether later accesses of the thread see what the thread of the seen value saw.
    pub(crate) fn acquires(self) -> bool {
        matches!(self.strength, Strength::Acquire | Strength::AcquireRelease)
    }

    pub(crate) fn is_strong(self) -> bool {
        self.strength != Strength::Weak
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Block => "block",
            Self::Cluster => "cluster",
            Self::Device => "device",
            Self::System => "system",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_have_the_orders_of_the_manual() {
        let order = |opcode: &str| Order::from_opcode(&opcode.split('.').collect::<Vec<_>>());
        for (opcode, strength, scope) in [
            ("ld.global.u32", Strength::Weak, Scope::System),
            ("ld.volatile.global.u32", Strength::Relaxed, Scope::System),
            ("ld.acquire.gpu.u32", Strength::Acquire, Scope::Device),
            ("st.release.cta.shared.u32", Strength::Release, Scope::Block),
            ("st.relaxed.sys.u32", Strength::Relaxed, Scope::System),
            ("atom.global.add.u32", Strength::Relaxed, Scope::Device),
            ("atom.acq_rel.sys.cas.b32", Strength::AcquireRelease, Scope::System),
            ("red.release.cta.global.add.u32", Strength::Release, Scope::Block),
            ("membar.gl", Strength::AcquireRelease, Scope::Device),
            ("membar.cta", Strength::AcquireRelease, Scope::Block),
            ("fence.sc.sys", Strength::AcquireRelease, Scope::System),
            ("fence.acq_rel.gpu", Strength::AcquireRelease, Scope::Device),
            ("mbarrier.arrive.shared.b64", Strength::Release, Scope::Block),
            ("mbarrier.try_wait.parity.shared.b64", Strength::Acquire, Scope::Block),
            ("barrier.cluster.arrive.relaxed.aligned", Strength::Relaxed, Scope::Cluster),
        ] {
            assert_eq!(order(opcode), Order { strength, scope }, "{opcode}");
        }
        assert!(!order("fence.proxy.async").is_strong() && !order("mbarrier.init.shared.b64").is_strong());
    }
}
