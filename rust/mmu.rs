// SPDX-License-Identifier: GPL-2.0

//! GPU address spaces: BOs, placements and eviction, page tables, TLB flushes.

pub(crate) mod addresses;
pub(crate) mod bo;
mod evict;
pub(crate) mod gem;
mod inner;
mod mirror;
mod pages;
pub(crate) mod pasid;
mod peer;
mod pgtable;
mod placement;
mod pte;
mod source;
mod space;
pub(crate) mod tlb;
pub(crate) mod usage;
mod user;
mod userptr;
pub(crate) mod vm;

pub(crate) use bo::{validate_within, Bo};
pub(crate) use inner::{EvictedBo, EvictionHandler, QueueOwner};
pub(crate) use mirror::Mirror;
pub(crate) use pages::{MirrorOwner, Pages, BLOCK_PAGES};
pub(crate) use placement::{Access, BoFlags, BoKind, CpuAccess, KernelAddr};
pub(crate) use user::UserBuffer;
pub(crate) use userptr::{Invalidations, UserptrNotifier, UserptrSeq};
pub(crate) use vm::Vm;
