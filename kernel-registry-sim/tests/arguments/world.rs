//! Creates one object of each kind, and valid arguments for every function.

use std::ffi::{CString, c_void};

use super::device::{self, get, last, ok};
use super::signatures::{Argument, Function, Kind};

const TEXT: &str = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .global .u32 v = 5;\n\
    .visible .entry k(.param .u64 to, .param .u32 n) {\n.reg .b32 %r<2>; .reg .b64 %rd<2>;\n\
    ld.param.u64 %rd1, [to]; ld.param.u32 %r1, [n]; st.global.u32 [%rd1], %r1; ret;\n}\n";

const ROOM: usize = 1 << 16;

/// The words of the largest structure.
const STRUCTURE: usize = 32;

pub struct World {
    text: CString,
    path: CString,
    context: usize,
    stream: usize,
    event: usize,
    module: usize,
    function: usize,
    library: usize,
    kernel: usize,
    link: usize,
    graph: usize,
    executable: usize,
    pool: usize,
    device_memory: usize,
    pinned: usize,
    /// A context that is not current.
    other: usize,
    /// Host memory, with a buffer for each argument.
    buffers: Vec<Vec<u64>>,
    registered: Vec<u64>,
    /// The values of a launch's arguments.
    values: [usize; 2],
    /// Pointers to these two values.
    pointers: [usize; 2],
    /// Handles of destroyed objects.
    pub stale: Vec<usize>,
}

/// Does nothing, as a callback. As the callback that tells how much shared memory a block needs, it returns 0
/// bytes.
extern "C" fn nothing(_: *mut c_void) -> usize {
    0
}

fn address(buffer: &[u64]) -> usize {
    buffer.as_ptr().expose_provenance()
}

impl World {
    pub fn new() -> Box<Self> {
        let path = std::env::temp_dir().join(format!("arguments-{}.ptx", std::process::id()));
        std::fs::write(&path, TEXT).unwrap();
        let mut world = Box::new(World {
            text: CString::new(TEXT).unwrap(),
            path: CString::new(path.to_str().unwrap()).unwrap(),
            context: 0,
            stream: 0,
            event: 0,
            module: 0,
            function: 0,
            library: 0,
            kernel: 0,
            link: 0,
            graph: 0,
            executable: 0,
            pool: 0,
            device_memory: 0,
            pinned: 0,
            other: 0,
            buffers: vec![vec![0; ROOM / 8]; 11],
            registered: vec![0; ROOM / 8],
            values: [0; 2],
            pointers: [0; 2],
            stale: Vec::new(),
        });
        world.create();
        world.renew();
        world
    }

    fn create(&mut self) {
        self.context = get("cuDevicePrimaryCtxRetain", &[0]);
        self.other = get("cuCtxCreate_v2", &[0, 0]);
        ok("cuCtxSetCurrent", &[self.context]);
        self.stream = get("cuStreamCreate", &[1]);
        self.event = get("cuEventCreate", &[0]);
        self.module = get("cuModuleLoadData", &[self.text()]);
        self.function = get("cuModuleGetFunction", &[self.module, c"k".as_ptr().expose_provenance()]);
        self.library = get("cuLibraryLoadData", &[self.text(), 0, 0, 0, 0, 0, 0]);
        self.kernel = get("cuLibraryGetKernel", &[self.library, c"k".as_ptr().expose_provenance()]);
        self.link = last("cuLinkCreate_v2", &[0, 0, 0]);
        self.device_memory = get("cuMemAlloc_v2", &[ROOM]);
        self.pinned = get("cuMemAllocHost_v2", &[ROOM]);
        self.pool = get("cuDeviceGetDefaultMemPool", &[0]);
        ok("cuMemHostRegister_v2", &[address(&self.registered), ROOM, 0]);
        ok("cuEventRecord", &[self.event, self.stream]);
        ok("cuStreamSynchronize", &[self.stream]);
        self.values = [self.device_memory, 7];
        self.pointers = [0, 1].map(|value| (&raw const self.values[value]).expose_provenance());
        self.make_graph();
    }

    fn make_graph(&mut self) {
        ok("cuStreamBeginCapture_v2", &[self.stream, 1]);
        ok("cuMemsetD8Async", &[self.device_memory, 0, ROOM, self.stream]);
        self.graph = last("cuStreamEndCapture", &[self.stream]);
        self.executable = get("cuGraphInstantiateWithFlags", &[self.graph, 0]);
    }

    /// Returns the content of the structure that a function takes.
    pub fn structure(&self, call: &str) -> Vec<u64> {
        const TWO_WORDS_OF_1: u64 = 1 << 32 | 1;
        let one = TWO_WORDS_OF_1;
        match call {
            // The structure describes pinned memory of a device.
            _ if call.contains("Pool") => {
                vec![1, 1]
            }
            // The structure has grid, block, shared memory, stream, and no attributes.
            "cuLaunchKernelEx" | "cuOccupancyMaxActiveClusters" | "cuOccupancyMaxPotentialClusterSize" => {
                vec![one, one, one, 0, self.stream as u64, 0, 0]
            }
            _ => Vec::new(),
        }
    }

    fn host_function(&self) -> usize {
        nothing as extern "C" fn(*mut c_void) -> usize as usize
    }

    fn text(&self) -> usize {
        self.text.as_ptr().expose_provenance()
    }

    pub fn handles(&self) -> Vec<usize> {
        let libraries = [self.library, self.kernel, self.link, self.graph, self.executable];
        let loaded = [self.context, self.other, self.stream, self.event, self.module, self.function];
        [&loaded[..], &libraries, &[self.pool, self.device_memory, self.pinned]].concat()
    }

    /// Returns whether the context has no error and the stream is not captured.
    pub fn is_whole(&self) -> bool {
        device::call("cuStreamQuery", &[self.stream]) == 0
    }

    /// Destroys all objects, and creates new objects.
    pub fn renew(&mut self) {
        self.stale = self.handles();
        self.stale.retain(|handle| ![self.context, self.other, self.pool].contains(handle));
        // The calls below wait for nothing. Earlier calls may have made the other device's context current, and
        // allocated memory there.
        ok("cuDevicePrimaryCtxReset_v2", &[0]);
        ok("cuDevicePrimaryCtxReset_v2", &[1]);
        // Some of these may be destroyed already.
        for (name, handle) in [
            ("cuCtxDestroy_v2", self.other),
            ("cuGraphDestroy", self.graph),
            ("cuGraphExecDestroy", self.executable),
            ("cuLibraryUnload", self.library),
            ("cuLinkDestroy", self.link),
        ] {
            device::call(name, &[handle]);
        }
        self.create();
    }

    /// Returns valid arguments for a function. Clears the output of earlier calls.
    pub fn valid(&mut self, function: &Function) -> Vec<usize> {
        let structure = self.structure(&function.name);
        for (buffer, argument) in self.buffers.iter_mut().zip(&function.arguments) {
            buffer[..STRUCTURE].fill(0);
            match argument.kind {
                Kind::Out if argument.name == "count" => buffer[0] = 16,
                Kind::In | Kind::Out => buffer[..structure.len()].copy_from_slice(&structure),
                _ => {}
            }
        }
        let words = function.arguments.iter().enumerate();
        words.map(|(index, argument)| self.valid_argument(function, index, argument)).collect()
    }

    /// Changes a word of the structure in one of the buffers.
    pub fn spoil(&mut self, buffer: usize, word: usize, value: usize) {
        self.buffers[buffer][word] = value as u64;
    }

    /// Returns the handle that a function wrote to a buffer.
    pub fn handle_at(buffer: usize) -> usize {
        // SAFETY: the buffers exist as long as the world, are aligned, and hold numbers.
        unsafe { *std::ptr::with_exposed_provenance::<usize>(buffer) }
    }

    fn valid_argument(&self, function: &Function, index: usize, argument: &Argument) -> usize {
        let (call, name, buffer) =
            (function.name.as_str(), argument.name.as_str(), address(&self.buffers[index]));
        match argument.kind {
            Kind::Handle => match name {
                "context" if call == "cuCtxDestroy_v2" => self.other,
                "context" | "to_context" | "from_context" => self.context,
                "event" | "start" | "end" => self.event,
                "module" => self.module,
                "function" => self.function,
                "library" => self.library,
                "kernel" => self.kernel,
                "link" => self.link,
                "graph" => self.graph,
                "executable" => self.executable,
                "pool" => self.pool,
                _ => self.stream,
            },
            Kind::Out | Kind::In => buffer,
            Kind::Name => {
                let name = match call {
                    "cuModuleGetGlobal_v2" => c"v",
                    "cuModuleLoad" | "cuLinkAddFile_v2" => &self.path,
                    "cuGetProcAddress" | "cuGetProcAddress_v2" => c"cuInit",
                    _ => c"k",
                };
                name.as_ptr().expose_provenance()
            }
            Kind::Image => self.text(),
            Kind::Arguments => self.pointers.as_ptr().expose_provenance(),
            Kind::HostFunction => self.host_function(),
            Kind::Packed => 0,
            Kind::Size => match (call, name) {
                ("cuMemcpyHtoD_v2" | "cuMemcpyHtoDAsync_v2", "from") => buffer,
                ("cuMemcpyDtoH_v2" | "cuMemcpyDtoHAsync_v2", "to") => buffer,
                ("cuMemFreeHost" | "cuMemHostGetDevicePointer_v2", "pointer") => self.pinned,
                ("cuMemHostRegister_v2", "pointer") => buffer,
                ("cuMemHostUnregister", "pointer") => address(&self.registered),
                ("cuLinkAddData_v2", "from") => self.text(),
                (_, "to" | "from" | "pointer" | "address") => self.device_memory,
                (_, "count") if call.contains("Graph") || call.contains("Capture") => 0,
                ("cuLinkAddData_v2", "bytes") => TEXT.len(),
                (_, "bytes" | "count" | "width" | "pitch" | "room") => 64,
                _ => 0,
            },
            Kind::Number => match name {
                "room" => 64,
                "version" => 13_000,
                "limit" | "code" | "kind" | "location" | "advice" | "rows" => 1,
                "grid_x" | "grid_y" | "grid_z" | "block_x" | "block_y" | "block_z" | "block" => 1,
                "major" | "which" if call == "cuDeviceGetAttribute" => 16,
                "which" if call.ends_with("SetAttribute") => 8,
                _ => 0,
            },
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.path.to_str().unwrap());
    }
}
