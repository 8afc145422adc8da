//! What `KernelParam` cannot be derived for.

mod of_crate {
    use kernel_registry::KernelParam;

    #[derive(Clone, Copy, KernelParam)]
    #[kernel_param(krate = ::kernel_registry)]
    #[repr(C)]
    pub struct Step {
        pub dt: f32,
    }
}

mod empty {
    use kernel_registry::KernelParam;

    #[derive(Clone, Copy, KernelParam)]
    #[repr(C)]
    pub struct Nothing;
}

mod of_enum {
    use kernel_registry::KernelParam;

    #[derive(Clone, Copy, KernelParam)]
    #[repr(u32)]
    pub enum Mode {
        Fast,
        Safe,
    }
}

mod reference {
    use kernel_registry::KernelParam;

    #[derive(Clone, Copy, KernelParam)]
    #[repr(C)]
    pub struct Step {
        pub dt: &'static f32,
    }
}

mod of_union {
    use kernel_registry::KernelParam;

    #[derive(Clone, Copy, KernelParam)]
    #[repr(C)]
    pub union Bits {
        pub float: f32,
        pub bits: u32,
    }
}

mod without_repr {
    use kernel_registry::KernelParam;

    #[derive(Clone, Copy, KernelParam)]
    pub struct Step {
        pub dt: f32,
    }
}

fn main() {}
