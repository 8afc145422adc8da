//! Tests expansions and error messages without a compiler: expands tokens, prints the result, and compares
//! it.

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::quote;

use crate::gpu_kernel;

/// Returns the expansion as formatted code, without the parts of paths that depend on the machine.
fn expansion(args: TokenStream, item: TokenStream) -> String {
    let tokens = gpu_kernel::expand(args, item);
    let file = syn::parse2(tokens).expect("an expansion is a list of items");
    prettyplease::unparse(&file).replace(env!("CARGO_MANIFEST_DIR"), "/package")
}

/// Returns the messages of the `compile_error!` calls in an expansion.
fn errors(args: TokenStream, item: TokenStream) -> Vec<String> {
    let file: syn::File =
        syn::parse2(gpu_kernel::expand(args, item)).expect("an expansion is a list of items");
    let message = |item: syn::Item| match item {
        syn::Item::Macro(call) if call.mac.path.segments.last()?.ident == "compile_error" => {
            Some(call.mac.parse_body::<syn::LitStr>().expect("a message").value())
        }
        _ => None,
    };
    file.items.into_iter().filter_map(message).collect()
}

fn image() -> TokenStream {
    quote!(image = "src/tests/image.ptx")
}

#[test]
fn a_kernel_expands_to_the_committed_code() {
    let image = image();
    let code = expansion(
        quote!(#image, name = "_Z5saxpyjfPKfPf", arch = ">=80", block = 256),
        quote! {
            /// y = a*x + y
            ///
            /// In place.
            #[allow(dead_code)]
            pub unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);
        },
    );
    compare(&code, "kernel.rs", include_str!("tests/kernel.rs"));
}

#[test]
fn a_generic_kernel_expands_to_the_committed_code() {
    let code = expansion(
        quote!(
            image = "src/tests/templates.ptx",
            instances(<f32, 128>, <f64, { A + B }> = "reduce<double, 256u>"),
            block = BLOCK
        ),
        quote! {
            /// The sum of each block.
            #[deprecated]
            pub unsafe fn reduce<T, const BLOCK: u32>(x: &[T], out: &mut [T], n: u32);
        },
    );
    compare(&code, "generic.rs", include_str!("tests/generic.rs"));
}

#[test]
fn errors_for_missing_instances_list_existing_ones() {
    let reduce = quote!(
        unsafe fn reduce<T, const BLOCK: u32>(x: &[T], out: &mut [T], n: u32);
    );
    let of = |instances: TokenStream, item: &TokenStream| {
        errors(quote!(image = "src/tests/templates.ptx", #instances), item.clone())
    };
    let there = "there are `reduce<double, 256u>`, `reduce<float, 128u>`, `reduce<float, 256u>`";
    assert_eq!(
        of(quote!(instances(<f32, 512>)), &reduce),
        [format!(
            "no instance `reduce<f32, 512>` in `src/tests/templates.ptx`: instantiate it there, or say which one \
             it is, as in `<f32, 512> = \"..\"`; {there}"
        )]
    );
    assert_eq!(of(quote!(instances(<u32, 128>)), &reduce).len(), 1);
    assert_eq!(
        of(quote!(instances(<f32, 128>, <f32>, <128, f32>, <f32, 128>)), &reduce),
        [
            "the kernel has 2 generic parameters, and 1 are given here",
            "`T` takes a type",
            "the instance `<f32, 128>` is given twice"
        ]
    );
    assert_eq!(
        of(quote!(), &reduce),
        ["which instances of `reduce` are there? say `instances(<..>, <..>)`, as the CUDA source has them"]
    );
    assert_eq!(
        of(
            quote!(instances(<f32>)),
            &quote!(
                unsafe fn reduce(x: &[f32]);
            )
        ),
        ["only a generic kernel has instances: declare `unsafe fn name<T>(..)`"]
    );
    // An error in all instances is reported once.
    let wrong = quote!(
        unsafe fn reduce<T, const BLOCK: u32>(x: &[T], out: &[T], n: u32);
    );
    assert_eq!(of(quote!(instances(<f32, 128>, <f32, 256>)), &wrong).len(), 1);
}

#[test]
fn an_option_is_for_slices() {
    let messages = |ty: TokenStream| {
        let image = image();
        errors(
            quote!(#image, name = "saxpy"),
            quote!(unsafe fn saxpy(n: u32, a: f32, x: #ty, y: &mut [f32]);),
        )
    };
    for ty in [quote!(Option<&[f32]>), quote!(::core::option::Option<(&mut [f32])>)] {
        assert_eq!(messages(ty), [""; 0]);
    }
    assert_eq!(
        messages(quote!(Option<*const f32>)),
        ["a pointer can be null without `Option`: write `*const T` or `*mut T`"]
    );
    assert_eq!(messages(quote!(Option<&f32>)), messages(quote!(&f32)));
    assert_eq!(messages(quote!(Option<&'static [f32]>)), messages(quote!(&'static [f32])));
}

#[test]
fn shared_memory_is_what_a_device_can_give() {
    let image = image();
    let messages = |arguments: TokenStream| {
        errors(
            quote!(#image, #arguments, name = "saxpy"),
            quote!(
                unsafe fn saxpy(n: u32, a: f32, x: &[f32], y: &mut [f32]);
            ),
        )
    };
    assert_eq!(messages(quote!(shared = 49152)), [""; 0]);
    assert_eq!(
        messages(quote!(shared = 100_000)),
        [
            "on sm_60, which `src/tests/image.ptx` is for, a block can have 49152 bytes of dynamic shared memory \
             (166912 with `arch = \">=80\"`, 232448 with `arch = \">=90\"`), and this is 100000"
        ]
    );
    assert_eq!(messages(quote!(shared = 100_000, arch = ">=80")), [""; 0]);
    assert_eq!(
        messages(quote!(shared = 240_000, arch = ">=90")),
        ["on sm_90 a block can have 232448 bytes of dynamic shared memory, and this is 240000"]
    );
    assert_eq!(
        messages(quote!(shared = 102_400, arch = ">=88")),
        [
            "on sm_88 a block can have 101376 bytes of dynamic shared memory (232448 with `arch = \">=90\"`), and this is 102400"
        ]
    );
}

#[test]
fn a_module_gets_a_list_of_its_kernels_and_warm_all() {
    let image = image();
    let code = expansion(
        image,
        quote! {
            /// Two kernels.
            pub mod pair {
                pub unsafe fn one(p: *const u8);
                #[cfg(feature = "other")]
                unsafe fn other(p: *mut u8);
                pub fn untouched() {}
            }
        },
    );
    // The kernels expand as in the tests above, so only the surrounding code is compared.
    let lines: Vec<&str> = code
        .lines()
        .filter(|line| {
            ["#[cfg(", "mod ", "struct ", "KERNELS", "PARTS", "JOINED", "::INFO", "fn untouched"]
                .iter()
                .any(|part| line.contains(part))
        })
        .map(str::trim)
        .collect();
    assert_eq!(
        lines,
        [
            "pub mod pair {",
            "pub struct one {",
            "#[cfg(feature = \"other\")]",
            "struct other {",
            "#[cfg(feature = \"other\")]",
            "pub fn untouched() {}",
            "pub const KERNELS: &[&::kernel_registry::KernelInfo] = {",
            "const PARTS: &[&[&::kernel_registry::KernelInfo]] = &[",
            "&[one::INFO],",
            "#[cfg(feature = \"other\")]",
            "&[other::INFO],",
            "const JOINED: [&::kernel_registry::KernelInfo; ::kernel_registry::__private_0_1::total(",
            "PARTS,",
            ")] = ::kernel_registry::__private_0_1::join(PARTS);",
            "&JOINED",
            "/// Makes the kernels of [`KERNELS`] ready in a context, and no others. See `kernel_registry::warm_all`.",
            "::kernel_registry::__private_0_1::warm_module(KERNELS, context)",
        ]
    );
}

#[test]
fn types_are_spelled_as_people_write_them() {
    let image = image();
    let code = expansion(
        image,
        quote!(
            unsafe fn t(
                a: *const *mut c_void,
                b: &mut [[f32; 4]],
                c: half::bf16,
                d: Vector<f32, 3>,
                e: <Self_ as Trait>::Out,
                f: *mut std::ffi::c_void,
            );
        ),
    );
    for spelled in [
        "*const *mut c_void",
        "&mut [[f32; 4]]",
        "half::bf16",
        "Vector<f32, 3>",
        "<Self_ as Trait>::Out",
        "*mut std::ffi::c_void",
    ] {
        assert!(
            code.contains(&format!(": {spelled},")) || code.contains(&format!(": {spelled})")),
            "{spelled} in {code}"
        );
    }
}

#[test]
fn all_errors_are_reported_and_the_type_is_still_generated() {
    let item = quote!(
        pub fn saxpy<T>(n: &u32, _: f32) -> u32 {}
    );
    let messages = errors(quote!(image = "nowhere.ptx", blok = 1), item.clone());
    assert_eq!(messages.len(), 8, "{messages:#?}");
    let code = gpu_kernel::expand(quote!(image = "nowhere.ptx"), item).to_string();
    assert!(code.contains("pub struct saxpy"), "{code}");
}

#[test]
fn messages_are_lower_case_without_a_full_stop() {
    let declarations = [
        quote!(
            pub const async extern "C" fn k<T>(self, _: u32, mut n: u32, n: &u32, a: [u8; 4], ...) -> u32 {}
        ),
        quote!(
            #[inline]
            #[derive(Clone)]
            #[test]
            #[gpu_kernel]
            unsafe fn k(a: &'a [u32], b: *const [u8], c: fn(), d: _);
        ),
        quote!(
            struct K;
        ),
        quote!(
            mod k {
                fn a();
                const KERNELS: u32 = 1;
            }
        ),
    ];
    let arguments = [
        quote!(blok = 1, image = "/absolute", arch = "80", block = 0, name = "a b", type = 1, crate = 1),
        quote!(file = "src/lib.rs", image = "x", image = "y", block = (1, 2, 3, 4), arch, "text"),
        quote!(image = "src/lib.rs"),
        quote!(),
    ];
    for declaration in &declarations {
        for argument in &arguments {
            let messages = errors(argument.clone(), declaration.clone());
            assert!(!messages.is_empty());
            for message in messages {
                let first = message.chars().next().unwrap();
                assert!(!first.is_uppercase() || message.starts_with("CUDA"), "{message}");
                assert!(!message.ends_with('.'), "{message}");
            }
        }
    }
}

#[test]
fn linked_excludes_a_file() {
    let item = quote!(
        unsafe fn saxpy(n: u32);
    );
    assert_eq!(errors(quote!(linked, name = "_Z5saxpyj"), item.clone()), [""; 0]);
    let both = "the code is either `linked` by nvcc or named by `image`: leave one out";
    assert_eq!(errors(quote!(linked, image = "x.ptx"), item.clone()), [both]);
    assert_eq!(errors(quote!(linked, linked), item.clone()), ["`linked` is given twice"]);
    assert_eq!(errors(quote!(linked = 1), item), ["`linked` takes no value"]);
}

/// Any tokens have to expand to code or errors, without a panic. Each token is removed, doubled and replaced
/// in turn.
#[test]
fn no_tokens_make_it_panic() {
    let image = image();
    let arguments = quote!(#image, instances(<f32, 1> = "k"), name = "k", arch = ">=80", block = (32, 8), shared = 1 << 10, type = K, crate = ::kr);
    let kernel = quote! {
        /// Documented.
        #[cfg(all())]
        pub(crate) unsafe fn k(n: u32, x: &[f32], y: &mut [f32], p: *const u8, q: *mut [u8; 4]);
    };
    let generic = quote! {
        unsafe fn k<T, const N: u32>(n: [T; N], x: &[T]);
    };
    let module = quote! {
        pub mod m {
            #[gpu_kernel(block = 32)]
            pub unsafe fn k(n: u32);
            mod inner { unsafe fn l(x: &mut [f64]); }
        }
    };
    let mut count = 0;
    for item in [kernel, generic, module] {
        for changed in changes(&item) {
            gpu_kernel::expand(arguments.clone(), changed);
            count += 1;
        }
        for changed in changes(&arguments) {
            gpu_kernel::expand(changed, item.clone());
            count += 1;
        }
    }
    assert!(count > 500, "{count} cases");
}

/// Returns variants of a token stream, each with one token, at any depth, removed, doubled, or replaced with
/// a wrong one.
fn changes(stream: &TokenStream) -> Vec<TokenStream> {
    let tokens: Vec<TokenTree> = stream.clone().into_iter().collect();
    let mut changes = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let mut replace = |with: Vec<TokenTree>| {
            let mut changed = tokens.clone();
            changed.splice(at..=at, with);
            changes.push(changed.into_iter().collect());
        };
        replace(vec![]);
        replace(vec![token.clone(), token.clone()]);
        for other in [quote!(;), quote!(fn), quote!("text"), quote!({}), quote!('a)] {
            replace(other.into_iter().collect());
        }
        if let TokenTree::Group(group) = token {
            for inner in self::changes(&group.stream()) {
                replace(vec![Group::new(group.delimiter(), inner).into()]);
            }
        }
    }
    changes
}

/// Compares code with a committed expansion, or replaces that if the variable `EXPANSION` is set.
#[track_caller]
fn compare(code: &str, file: &str, expected: &str) {
    if std::env::var_os("EXPANSION").is_some() {
        let path = format!("{}/src/tests/{file}", env!("CARGO_MANIFEST_DIR"));
        std::fs::write(path, code).expect("the source is writable");
    } else {
        assert_eq!(code, expected, "the expansion changed: EXPANSION=overwrite takes the new one");
    }
}
