// SPDX-License-Identifier: GPL-2.0

//! GPU address spaces: buffer objects and where they are, page tables, TLB invalidation, PASIDs.

pub(crate) mod bo;
mod evict;
pub(crate) mod gem;
pub(crate) mod pasid;
mod pgtable;
mod store;
pub(crate) mod tlb;
mod user;
pub(crate) mod vm;

pub(crate) use bo::{Bo, BoFlags, BoKind, BoRef, CpuAccess};
pub(crate) use evict::{make_room, validate, Away, Evictable, Owner};
pub(crate) use user::{Keeper, UserBuffer, Validity};
pub(crate) use vm::{rewrite_tables, Access, Spaces, Vm};
