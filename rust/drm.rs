// SPDX-License-Identifier: GPL-2.0

//! The render node, as far as compute user space needs it: questions about the device, buffers with handles,
//! the address space that `ACQUIRE_VM` shares with `/dev/kfd`, and commands for the DMA engines.
//!
//! Name, version and numbers are those of amdgpu, because libdrm_amdgpu speaks to nothing else. What amdgpu has
//! and this does not (queues of user space, memory of user space, ...) fails with `EINVAL`, as the DRM core answers
//! for ioctls that a driver does not have.

use kernel::{
    fs::File,
    new_mutex,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
};

use crate::{
    gpu::{self, Gpu},
    kapi::{
        drm::{self, Ioctl},
        fence::Timeout,
    },
    mmu::Vm,
    uapi,
};

mod bo_list;
mod cs;
mod ctx;
mod gem;
mod info;
mod stream;
mod table;
mod target;
mod user;
mod va;
mod wait;

use bo_list::BoList;
use ctx::Ctx;
use table::Table;

/// The driver.
pub(crate) struct Render;

/// What belongs to an open file.
#[pin_data]
pub(crate) struct FileData {
    // Field order: jobs go before what they use.
    #[pin]
    contexts: Mutex<Table<Arc<Ctx>>>,
    #[pin]
    bo_lists: Mutex<Table<Arc<BoList>>>,
    /// Tells the file's jobs from those of others.
    owner: usize,
    gpu: Arc<Gpu>,
    /// Made when it is first asked for: most files only ask questions.
    #[pin]
    vm: Mutex<Option<Arc<Vm>>>,
    /// Taken before the lock of the address space.
    #[pin]
    mappings: Mutex<va::Mappings>,
}

impl FileData {
    /// The GPU; `ENODEV` when the driver has left it.
    fn gpu(&self) -> Result<&Arc<Gpu>> {
        if self.gpu.is_gone() {
            return Err(ENODEV);
        }
        Ok(&self.gpu)
    }

    /// The address space of the file.
    fn vm(&self) -> Result<Arc<Vm>> {
        let mut vm = self.vm.lock();
        if let Some(vm) = &*vm {
            return Ok(vm.clone());
        }
        let new = Vm::new(self.gpu()?)?;
        *vm = Some(new.clone());
        Ok(new)
    }

    /// The context with a handle.
    fn ctx(&self, handle: u32) -> Result<Arc<Ctx>> {
        self.contexts.lock().get(handle).cloned().ok_or(EINVAL)
    }
}

/// How long closing a descriptor waits for the jobs of a ring.
const FLUSH_MS: u32 = 1000;

/// Numbers of files, never used again. 0 are the driver's own jobs.
static OWNERS: Atomic<usize> = Atomic::new(1);

/// One line for each number up to the highest of amdgpu.
const LINES: usize = uapi::DRM_AMDGPU_PROC_OPTIONS as usize + 1;

static IOCTLS: [Ioctl; LINES] = drm::ioctl_table([
    Ioctl::new::<Render, info::Info>(),
    Ioctl::new::<Render, bo_list::Lists>(),
    Ioctl::new::<Render, ctx::Contexts>(),
    Ioctl::new::<Render, cs::Submit>(),
    Ioctl::new::<Render, wait::WaitCs>(),
    Ioctl::new::<Render, wait::WaitFences>(),
    Ioctl::new::<Render, wait::FenceToHandle>(),
    Ioctl::new::<Render, gem::Create>(),
    Ioctl::new::<Render, gem::Mmap>(),
    Ioctl::new::<Render, gem::Metadata>(),
    Ioctl::new::<Render, gem::WaitIdle>(),
    Ioctl::new::<Render, va::Va>(),
    Ioctl::new::<Render, gem::Op>(),
]);

impl drm::Driver for Render {
    type File = FileData;
    const NAME: &'static CStr = c"amdgpu";
    const DESC: &'static CStr = c"AMD GPU";
    const VERSION: (i32, i32, i32) = (3, 64, 0);
    const IOCTLS: &'static [Ioctl] = &IOCTLS;

    fn open(dev: &drm::Device) -> Result<Arc<FileData>> {
        let gpu = gpu::list()
            .iter()
            .find(|gpu| core::ptr::eq(gpu.dev(), dev.parent()))
            .cloned()
            .ok_or(ENODEV)?;
        Arc::pin_init(
            pin_init!(FileData {
                contexts <- new_mutex!(Table::new()),
                bo_lists <- new_mutex!(Table::new()),
                owner: OWNERS.fetch_add(1, Relaxed),
                gpu,
                vm <- new_mutex!(None),
                mappings <- new_mutex!(va::Mappings::new()),
            }),
            GFP_KERNEL,
        )
    }

    fn flush(file: &drm::File<Self>) {
        let data = file.data();
        let patience = Timeout::from_ms(FLUSH_MS);
        for at in 0.. {
            let ctx = data.contexts.lock().iter().nth(at).cloned();
            let Some(ctx) = ctx else {
                return;
            };
            ctx.for_each(|stream| stream.flush(patience));
        }
    }

    fn handle_closed(file: &drm::File<Self>, object: usize) {
        let data = file.data();
        let vm = data.vm.lock().clone();
        let Some(vm) = vm else {
            return;
        };
        let mapped = data.mappings.lock().find(object);
        if let Some(mapped) = mapped {
            // Jobs that were submitted before are done with it first.
            // Nothing interrupts that.
            let _ = va::wait_for_jobs(&mapped, false);
            data.mappings.lock().forget(&vm, object);
        }
    }
}

/// The render node of a GPU. Dropping it takes it away; open files stay, and get `ENODEV`.
pub(crate) struct Node(drm::Registration);

impl Node {
    /// Shows a GPU, which is listed already, to user space.
    pub(crate) fn register(gpu: &Arc<Gpu>) -> Result<Self> {
        let dev = drm::Device::new::<Render>(gpu.dev())?;
        Ok(Self(drm::Registration::new(dev)?))
    }

    /// The minor number.
    pub(crate) fn minor(&self) -> u32 {
        self.0.render_minor()
    }
}

/// The address space of an open file; `EINVAL` if it is no render node file of `gpu`.
pub(crate) fn vm_of_file(file: &File, gpu: &Gpu) -> Result<Arc<Vm>> {
    let file = drm::File::<Render>::of(file).ok_or(EINVAL)?;
    let data = file.data();
    if !core::ptr::eq(&*data.gpu, gpu) {
        return Err(EINVAL);
    }
    data.vm()
}
