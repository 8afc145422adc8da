//! Asserts that types of the API are `Send` and `Sync`.

use kernel_registry::{
    Duplicate, Image, KernelInfo, LateLoad, LaunchConfig, LaunchError, MainError, OtherCopy, Prepared,
    Progress, RecheckError, RegistryError, Report, Warm, WarmError,
};

const fn send_and_sync<T: Send + Sync>() {}

/// The calls are checked when this file is compiled.
const _: () = {
    send_and_sync::<&KernelInfo>();
    send_and_sync::<Image>();
    send_and_sync::<Duplicate>();
    send_and_sync::<OtherCopy>();
    send_and_sync::<Warm>();
    send_and_sync::<Report>();
    send_and_sync::<Progress>();
    send_and_sync::<LateLoad>();
    send_and_sync::<Prepared>();
    send_and_sync::<LaunchConfig>();
    send_and_sync::<RegistryError>();
    send_and_sync::<WarmError>();
    send_and_sync::<LaunchError>();
    send_and_sync::<RecheckError>();
    send_and_sync::<MainError>();
};
