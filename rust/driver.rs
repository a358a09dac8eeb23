// SPDX-License-Identifier: GPL-2.0

//! PCI driver: device table, probe and remove, suspend, bus reset and errors of the link.
//!
//! amdgpu claims the same PCI class; [`crate::compat`] ensures that only one of the two is loaded.

use kernel::{
    device::Core,
    new_mutex,
    pci,
    prelude::*,
    sync::{Arc, Mutex}, //
};
use rkfd_abi::mmio::{DEVICE_MI300X, DEVICE_MI308X, DEVICE_MI325X, DEVICE_RX9070};

use crate::{
    compat, drm,
    gpu::Gpu,
    kapi::{
        self,
        kobject::DeviceLink,
        pci_driver::{Channel, Hooks, Verdict},
        vma,
        workqueue::Delayed, //
    },
    monitor,
    node::{self, NodeSet},
    partition::{self, Partitions},
    process,
    recovery::Recovery,
};

/// The PCI driver.
pub(crate) struct Driver;

/// Entry of the device table: a supported card.
pub(crate) struct Card {
    name: &'static str,
}

kernel::pci_device_table!(
    PCI_TABLE,
    <Driver as pci::Driver>::IdInfo,
    [
        (
            pci::DeviceId::from_id(pci::Vendor::ATI, DEVICE_MI300X),
            Card { name: "MI300X" }
        ),
        (
            pci::DeviceId::from_id(pci::Vendor::ATI, DEVICE_MI308X),
            Card { name: "MI308X" }
        ),
        (
            pci::DeviceId::from_id(pci::Vendor::ATI, DEVICE_MI325X),
            Card { name: "MI325X" }
        ),
        (
            pci::DeviceId::from_id(pci::Vendor::ATI, DEVICE_RX9070),
            Card {
                name: "Radeon RX 9070"
            }
        ),
    ]
);

/// Driver data of a bound device.
#[pin_data]
pub(crate) struct Bound {
    up: Up,
    #[pin]
    listed: Mutex<Listed>,
}

/// A device, as far as it was brought up.
struct Up {
    gpu: Arc<Gpu>,
    nodes: Arc<NodeSet>,
    recovery: Option<Arc<Delayed<Recovery>>>,
}

/// Interfaces of a device for user space, as far as they were registered.
#[derive(Default)]
struct Listed {
    render: Option<drm::RenderNodes>,
    partitions: Option<Arc<Partitions>>,
    files: Option<partition::Files>,
    monitor: Option<monitor::Files>,
    link: Option<DeviceLink>,
}

impl Up {
    fn new(pdev: &pci::Device<Core<'_>>) -> Result<Self> {
        let gpu = Gpu::new(pdev, &process::SINK, node::make_card_id)?;
        let nodes = NodeSet::new(&gpu).inspect_err(|_| gpu.close_bus())?;
        Ok(Up {
            gpu,
            nodes,
            recovery: None,
        })
    }

    fn start(&mut self, pdev: &pci::Device<Core<'_>>, listed: &mut Listed) -> Result {
        self.gpu.start(pdev)?;
        let mode = self.gpu.initial_mode()?;
        self.nodes.start(mode)?;
        let recovery = self.recovery.insert(Recovery::start(pdev, &self.nodes)?);
        let partitions = Partitions::new(&self.nodes, mode, recovery)?;
        let partitions = listed.partitions.insert(partitions);
        // Files and topology precede the uevents of the DRM devices, at which user space looks for
        // them.
        listed.files = Some(partition::Files::new(partitions)?);
        match monitor::Files::new(&self.gpu) {
            Ok(files) => listed.monitor = Some(files),
            // The GPU works without them.
            Err(e) => dev_warn!(pdev, "no files for monitoring: {e:?}\n"),
        }
        let render = listed.render.insert(drm::RenderNodes::new(&self.nodes)?);
        partitions.publish(render.list()?)?;
        render.register()?;
        recovery.set_drm_device(render.device());
        match compat::list(pdev.as_ref()) {
            Ok(link) => listed.link = Some(link),
            Err(e) => dev_warn!(pdev, "no link below /sys/module/amdgpu/drivers: {e:?}\n"),
        }
        Ok(())
    }

    /// Undoes [`Up::start`], as far as it got.
    fn take_down(&self, pdev: &pci::Device<Core<'_>>, listed: Listed) {
        // Waits for writers, which need everything else.
        drop(listed.files);
        drop(listed.monitor);
        drop(listed.link);
        if let Some(recovery) = &self.recovery {
            recovery.end();
        }
        // The steps below do not wait for a wedged card.
        if !kapi::pci::is_present(pdev) {
            self.gpu.wedge("it was removed from the bus");
        }
        // After the last reset of this binding: a reset would switch the mode at once.
        if let Some(partitions) = &listed.partitions {
            partitions.request_memory_mode();
        }
        // No new users after this.
        drop(listed.partitions);
        // Without the render node CPU accesses to BOs go to other pages: kernels must not read
        // arguments that were written there. Engines that do not stop are halted below.
        let _ = self.nodes.end_queues();
        // Waits for jobs that are being submitted and for accesses to BOs by the render nodes, zaps
        // their mappings. Other ioctls that have begun continue.
        drop(listed.render);
        process::detach_gpu(&self.gpu);
        self.gpu.end_migration();
        self.nodes.drop_nodes();
        self.gpu.stop(pdev);
        // CPU mappings of BARs fault after this.
        vma::zap_all();
    }
}

impl pci::Driver for Driver {
    type IdInfo = Card;
    type Data<'bound> = Bound;

    const ID_TABLE: pci::IdTable<Self::IdInfo> = &PCI_TABLE;

    fn probe<'bound>(
        pdev: &'bound pci::Device<Core<'_>>,
        card: Option<&'bound Self::IdInfo>,
    ) -> impl PinInit<Self::Data<'bound>, Error> + 'bound {
        pin_init::pin_init_scope(move || {
            kapi::pci::enable_memory(pdev)?;
            let failed = |e: &Error| dev_err!(pdev, "probe failed: {e:?}\n");
            let mut up = Up::new(pdev).inspect_err(failed)?;
            let mut listed = Listed::default();
            if let Err(e) = up.start(pdev, &mut listed) {
                failed(&e);
                up.take_down(pdev, listed);
                return Err(e);
            }
            let config = up.gpu.config();
            dev_info!(
                pdev,
                "{} ({}): GPU {:#x}, {} CUs, {} SDMA engines, {} MiB VRAM\n",
                card.map_or("GPU", |c| c.name),
                up.gpu.generation().name,
                up.nodes.get(0).map_or(0, |node| node.id()),
                config.core().cu_total,
                config.num_sdma,
                config.vram_size >> 20
            );
            Ok(try_pin_init!(Bound {
                up,
                listed <- new_mutex!(listed, "rkfd_listed"),
            }))
        })
    }

    fn unbind<'bound>(pdev: &'bound pci::Device<Core<'_>>, this: Pin<&Self::Data<'bound>>) {
        dev_dbg!(pdev, "unbinding\n");
        let listed = core::mem::take(&mut *this.listed.lock());
        this.up.take_down(pdev, listed);
    }
}

#[vtable]
impl Hooks for Driver {
    fn shutdown(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>) {
        if let Some(recovery) = &this.up.recovery {
            recovery.sleep();
        }
        // Engines whose queues did not stop are halted, or the card is reset.
        let _ = this.up.nodes.stop();
        this.up.gpu.shut_down(pdev);
    }

    fn suspend(this: Pin<&Self::Data<'_>>) -> Result {
        let gpu = &this.up.gpu;
        let nodes = &this.up.nodes;
        let recovery = this.up.recovery.as_ref();
        if let Some(recovery) = recovery {
            recovery.sleep();
        }
        nodes.stop().and_then(|()| gpu.suspend()).inspect_err(|_| {
            // Suspend was aborted: map the queues again.
            if let Err(e) = nodes.restart() {
                dev_err!(gpu.dev(), "queues were not mapped again: {e:?}\n");
            }
            if let Some(recovery) = recovery {
                Recovery::wake(recovery);
            }
        })
    }

    fn resume(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>) -> Result {
        let gpu = &this.up.gpu;
        let back = if gpu.is_hung() {
            gpu.abandon_image();
            Ok(())
        } else {
            gpu.resume(pdev)
                .and_then(|()| this.up.nodes.restart())
                .inspect_err(|_| {
                    gpu.wedge("resume failed");
                })
        };
        // Also after an error: jobs on a hung card fail.
        gpu.unpause_sdma();
        if let Some(recovery) = &this.up.recovery {
            Recovery::wake(recovery);
        }
        back
    }

    fn reset_prepare(this: Pin<&Self::Data<'_>>) {
        if let Some(recovery) = &this.up.recovery {
            recovery.prepare();
        }
    }

    fn reset_done(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>) {
        if let Some(recovery) = &this.up.recovery {
            recovery.done(pdev);
        }
    }

    fn error_detected(this: Pin<&Self::Data<'_>>, channel: Channel) -> Verdict {
        let Some(recovery) = &this.up.recovery else {
            return Verdict::Disconnect;
        };
        match channel {
            Channel::Normal => Verdict::CanRecover,
            Channel::Frozen => {
                recovery.link_failed();
                Verdict::NeedReset
            }
            Channel::Lost => {
                recovery.recovery_failed();
                Verdict::Disconnect
            }
        }
    }

    // Also restarts the queues: they are new ones. `resume` would be called with the lock of the
    // device released meanwhile.
    fn slot_reset(pdev: &pci::Device<Core<'_>>, this: Pin<&Self::Data<'_>>) -> Verdict {
        let Some(recovery) = &this.up.recovery else {
            return Verdict::Disconnect;
        };
        match recovery.link_reset(pdev) {
            Ok(()) => Verdict::Recovered,
            Err(_) => Verdict::Disconnect,
        }
    }
}
