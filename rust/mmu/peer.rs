// SPDX-License-Identifier: GPL-2.0

//! Memory of a BO on other devices than the BO's own: DMA mappings, one per memory and device.

use core::ptr;

use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex}, //
};

use crate::kapi::dma::{self, PeerMapping};

/// A mapping for a device and the number of its users.
struct Peer {
    device: Arc<dma::Device>,
    mapping: Arc<PeerMapping>,
    users: usize,
}

/// The mappings of memory for other devices, while they have users.
#[pin_data]
pub(super) struct Peers {
    #[pin]
    list: Mutex<KVec<Peer>>,
}

impl Peers {
    /// Returns no mappings.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- new_mutex!(KVec::new(), "rkfd_peers"),
        })
    }
}

/// Memory that may be mapped for several devices.
pub(super) trait PeerMemory: Send + Sync {
    /// Returns the list of mappings.
    fn peers(&self) -> &Peers;

    /// Maps the memory for `device`. `ENOMEM` without memory or DMA addresses, `ENODEV` after the
    /// unbind of the device.
    fn map_for(&self, device: &Arc<dma::Device>) -> Result<PeerMapping>;
}

/// A use of memory by another device, which maps it until the last one is dropped.
pub(super) struct PeerUse {
    memory: Arc<dyn PeerMemory>,
    device: Arc<dma::Device>,
    mapping: Arc<PeerMapping>,
}

impl PeerUse {
    /// Maps `memory` for `device`, unless it is mapped. Errors as [`PeerMemory::map_for`].
    pub(super) fn new(memory: Arc<dyn PeerMemory>, device: &Arc<dma::Device>) -> Result<Self> {
        let mut list = memory.peers().list.lock();
        let known = list.iter_mut().find(|p| Arc::ptr_eq(&p.device, device));
        let mapping = match known {
            Some(peer) => {
                peer.users += 1;
                peer.mapping.clone()
            }
            None => {
                list.reserve(1, GFP_KERNEL)?;
                let mapping = Arc::new(memory.map_for(device)?, GFP_KERNEL)?;
                list.push_within_capacity(Peer {
                    device: device.clone(),
                    mapping: mapping.clone(),
                    users: 1,
                })?;
                mapping
            }
        };
        drop(list);
        Ok(Self {
            memory,
            device: device.clone(),
            mapping,
        })
    }

    /// Returns the mapping.
    pub(super) fn mapping(&self) -> &PeerMapping {
        &self.mapping
    }

    /// Returns whether the use is of `memory`.
    pub(super) fn is_of(&self, memory: &dyn PeerMemory) -> bool {
        ptr::addr_eq(ptr::from_ref(&*self.memory), ptr::from_ref(memory))
    }
}

impl Drop for PeerUse {
    fn drop(&mut self) {
        let mut list = self.memory.peers().list.lock();
        let at = list
            .iter()
            .position(|p| Arc::ptr_eq(&p.device, &self.device));
        let Some(at) = at else { return };
        if list[at].users > 1 {
            list[at].users -= 1;
            return;
        }
        let last = list.remove(at);
        drop(list);
        drop(last);
    }
}
