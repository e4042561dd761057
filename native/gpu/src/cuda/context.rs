//! The driver's objects, each of which is freed when it is dropped.
//!
//! The driver has a current context for every thread. It belongs to the caller, so every
//! operation makes its own context the current one and then restores the former.

use std::ffi::CString;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use cudarc::driver::DriverError;
use cudarc::driver::result::{self, stream::StreamKind};
use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdevice_attribute, CUevent, CUevent_flags, CUevent_wait_flags,
    CUfunction, CUmodule, CUresult, CUstream,
};

use crate::{Error, Result};

/// Returns a function that converts an error of the driver.
pub fn cannot(action: &'static str) -> impl Fn(DriverError) -> Error {
    move |error| Error::Driver {
        action,
        detail: error.to_string(),
    }
}

/// The primary context of a GPU, which all libraries of a process share.
pub struct Context {
    raw: CUcontext,
    device: CUdevice,
}

// SAFETY: the driver's contexts may be used by any thread.
unsafe impl Send for Context {}
// SAFETY: as above; the fields never change.
unsafe impl Sync for Context {}

impl Context {
    /// Retains the context of the GPU with this number.
    pub fn open(number: u16) -> Result<Arc<Self>> {
        let open = || {
            result::init()?;
            let device = result::device::get(number.into())?;
            // SAFETY: the device comes from the driver.
            let raw = unsafe { result::primary_ctx::retain(device)? };
            Ok(Arc::new(Self { raw, device }))
        };
        open().map_err(cannot("open the GPU"))
    }

    /// Returns whether both are the context of the same GPU.
    pub fn is_same(&self, other: &Self) -> bool {
        self.raw == other.raw
    }

    /// Makes this context the current one of the thread until the result is dropped.
    pub fn enter(&self) -> Result<Entered> {
        let previous = result::ctx::get_current().map_err(cannot("use the GPU"))?;
        // SAFETY: `self` retains the context.
        unsafe { result::ctx::set_current(self.raw) }.map_err(cannot("use the GPU"))?;
        Ok(Entered {
            previous: previous.unwrap_or(ptr::null_mut()),
            of_thread: PhantomData,
        })
    }

    /// Returns the name of the GPU.
    pub fn name(&self) -> Result<String> {
        result::device::get_name(self.device).map_err(cannot("read the name of the GPU"))
    }

    /// Returns the compute capability of the GPU: the major and the minor number.
    pub fn capability(&self) -> Result<(i32, i32)> {
        let read = |attribute| {
            // SAFETY: the device comes from the driver.
            unsafe { result::device::get_attribute(self.device, attribute) }
                .map_err(cannot("read the capability of the GPU"))
        };
        Ok((
            read(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            read(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: `open` has retained the context of this device once.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

/// A context is the current one of the thread while this value exists.
pub struct Entered {
    /// Null if the thread had no context.
    previous: CUcontext,
    /// Another thread has another current context.
    of_thread: PhantomData<*mut ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        // SAFETY: this context was the current one, so whoever made it so keeps it; null
        // means no context.
        let _ = unsafe { result::ctx::set_current(self.previous) };
    }
}

/// Calls `free` with the context as the current one. Objects whose context cannot be used
/// have been freed by the driver.
pub fn freeing(context: &Context, free: impl FnOnce() -> Result<(), DriverError>) {
    if let Ok(_entered) = context.enter() {
        let _ = free();
    }
}

/// A sequence of work.
pub struct Stream {
    context: Arc<Context>,
    raw: CUstream,
}

// SAFETY: the driver's streams may be used by any thread.
unsafe impl Send for Stream {}
// SAFETY: as above; the fields never change.
unsafe impl Sync for Stream {}

impl Stream {
    /// Creates a stream. It does not wait for the default stream, which other libraries
    /// use. The context must be the current one.
    pub fn new(context: &Arc<Context>) -> Result<Self> {
        let raw = result::stream::create(StreamKind::NonBlocking);
        Ok(Self {
            raw: raw.map_err(cannot("create a stream"))?,
            context: context.clone(),
        })
    }

    pub fn raw(&self) -> CUstream {
        self.raw
    }

    /// Waits until all of its work is done.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream exists until `self` is dropped.
        unsafe { result::stream::synchronize(self.raw) }.map_err(cannot("wait for the GPU"))
    }

    /// Lets all later work of this stream wait for an event.
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        let flags = CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: the stream and the event exist during the call, which is all that the
        // driver requires.
        unsafe { result::stream::wait_event(self.raw, event.raw, flags) }
            .map_err(cannot("wait for a stream"))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: nothing uses the stream after `self`.
        freeing(&self.context, || unsafe {
            result::stream::destroy(self.raw)
        });
    }
}

/// A point in the work of a stream.
pub struct Event {
    context: Arc<Context>,
    raw: CUevent,
}

// SAFETY: the driver's events may be used by any thread.
unsafe impl Send for Event {}
// SAFETY: as above; the fields never change.
unsafe impl Sync for Event {}

impl Event {
    /// Creates an event. The context must be the current one.
    pub fn new(context: &Arc<Context>, flags: CUevent_flags) -> Result<Self> {
        let raw = result::event::create(flags).map_err(cannot("create an event"))?;
        Ok(Self {
            context: context.clone(),
            raw,
        })
    }

    pub fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: a `Stream` exists.
        unsafe { self.record_in(stream.raw) }
    }

    /// Moves the event after all present work of a stream.
    ///
    /// # Safety
    /// The stream must exist, or be 0, the default stream.
    pub unsafe fn record_in(&self, stream: CUstream) -> Result<()> {
        // SAFETY: the event exists until `self` is dropped; the caller guarantees the
        // stream.
        unsafe { result::event::record(self.raw, stream) }.map_err(cannot("record an event"))
    }

    /// Waits until the stream has reached the event.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the event exists until `self` is dropped.
        unsafe { result::event::synchronize(self.raw) }.map_err(cannot("wait for the GPU"))
    }

    /// Returns the seconds from this event to `end`.
    pub fn seconds_to(&self, end: &Self) -> Result<f32> {
        // SAFETY: both events exist.
        let ms = unsafe { result::event::elapsed(self.raw, end.raw) };
        Ok(ms.map_err(cannot("measure kernels"))? / 1000.0)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: nothing uses the event after `self`.
        freeing(&self.context, || unsafe {
            result::event::destroy(self.raw)
        });
    }
}

/// Memory of the host that a GPU copies from without another copy. Allocating it takes
/// about 0.4 s per GiB.
pub struct Pinned {
    context: Arc<Context>,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the value is the only owner of its memory.
unsafe impl Send for Pinned {}

impl Pinned {
    /// Allocates `len` zeros. The context must be the current one.
    pub fn zeroed(context: &Arc<Context>, len: usize) -> Result<Self> {
        let len = len.max(1);
        // SAFETY: the flags are none. The content is written below.
        let start = unsafe { result::malloc_host(len, 0) };
        let start = start.map_err(cannot("allocate pinned memory"))?.cast();
        let no_memory = || Error::Usage("the driver has returned no pinned memory".into());
        let start = NonNull::new(start).ok_or_else(no_memory)?;
        // SAFETY: the allocation has this length, and there is no reference to it.
        unsafe { start.write_bytes(0, len) };
        Ok(Self {
            context: context.clone(),
            start,
            len,
        })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the memory has `len` initialised bytes. The GPU only reads them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` is the only borrow of the memory.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: the memory comes from `malloc_host`, and nothing uses it after `self`.
        freeing(&self.context, || unsafe {
            result::free_host(self.start.as_ptr().cast())
        });
    }
}

/// Compiled kernels.
pub struct Module {
    context: Arc<Context>,
    raw: CUmodule,
}

// SAFETY: the driver's modules may be used by any thread.
unsafe impl Send for Module {}
// SAFETY: as above; the fields never change.
unsafe impl Sync for Module {}

impl Module {
    /// Compiles PTX. The context must be the current one.
    pub fn new(context: &Arc<Context>, ptx: &str) -> Result<Self> {
        let has_nul = |_| Error::Usage("the kernels contain a NUL".into());
        let ptx = CString::new(ptx).map_err(has_nul)?;
        // SAFETY: the image is a text that ends with a NUL.
        let raw = unsafe { result::module::load_data(ptx.as_ptr().cast()) };
        Ok(Self {
            context: context.clone(),
            raw: raw.map_err(cannot("load the kernels"))?,
        })
    }

    /// Returns the kernel with this name. It can be launched while the module exists.
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        let has_nul = |_| Error::Usage("the name of a kernel contains a NUL".into());
        let name = CString::new(name).map_err(has_nul)?;
        // SAFETY: the module exists until `self` is dropped.
        let raw = unsafe { result::module::get_function(self.raw, name) };
        Ok(Kernel(raw.map_err(cannot("find a kernel"))?))
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: nothing uses the module after `self`.
        freeing(&self.context, || unsafe {
            result::module::unload(self.raw)
        });
    }
}

/// A kernel of a [`Module`].
#[derive(Clone, Copy)]
pub struct Kernel(pub CUfunction);

// SAFETY: the driver's functions may be used by any thread.
unsafe impl Send for Kernel {}
// SAFETY: as above; the field never changes.
unsafe impl Sync for Kernel {}

/// The functions of the driver that this module uses.
const FUNCTIONS: [&str; 31] = [
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncSetAttribute",
    "cuGetErrorString",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAlloc_v2",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoH_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];

/// The oldest version of CUDA whose driver loads the kernels, as the driver states it.
const MIN_VERSION: i32 = 12_000;

/// Checks that a present driver has all functions, and is new enough.
pub fn check_driver() -> Result<()> {
    let refuse = |detail: String| Error::Driver {
        action: "use the driver",
        detail: format!("{detail}; install driver 525 or later"),
    };
    // SAFETY: the library has been loaded before.
    let library = unsafe { sys::culib() };
    for name in FUNCTIONS {
        // SAFETY: the symbol is only looked up.
        if unsafe { library.get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_err() {
            return Err(refuse(format!("its library has no {name}")));
        }
    }
    let mut version = 0;
    // SAFETY: the function writes the number.
    let read = unsafe { sys::cuDriverGetVersion(&raw mut version) }.result();
    read.map_err(cannot("read the version of the driver"))?;
    match version >= MIN_VERSION {
        true => Ok(()),
        false => {
            let (major, minor) = (version / 1000, version % 1000 / 10);
            Err(refuse(format!("it only supports CUDA {major}.{minor}")))
        }
    }
}

/// Returns whether the driver's library can be loaded.
pub fn is_driver_present() -> bool {
    // SAFETY: loading a library runs its initialisers. The library is the driver, which
    // the system's administrator installed for this purpose.
    unsafe { sys::is_culib_present() }
}

pub fn is_out_of_memory(error: &DriverError) -> bool {
    error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY
}
