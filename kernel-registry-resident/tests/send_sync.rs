//! Asserts that types of the API are `Send` and `Sync`.

use std::sync::atomic::AtomicU32;

use kernel_registry_resident::{
    BlocksMissing, Control, Mapped, Part, Partition, PartitionError, Queue, Resident, ResidentError,
    SectionError,
};

const fn send_and_sync<T: Send + Sync>() {}

/// The calls only have to compile.
const _: () = {
    send_and_sync::<Resident>();
    send_and_sync::<ResidentError>();
    send_and_sync::<SectionError>();
    send_and_sync::<Partition>();
    send_and_sync::<Part>();
    send_and_sync::<PartitionError>();
    send_and_sync::<Control>();
    send_and_sync::<BlocksMissing>();
    send_and_sync::<Mapped<f32>>();
    send_and_sync::<Mapped<AtomicU32>>();
    // Pointers in a queue are device addresses, so the queue is `Send` even with `*const f32`.
    send_and_sync::<Queue<*const f32>>();
};
