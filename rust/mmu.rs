// SPDX-License-Identifier: GPL-2.0

//! GPU address spaces: buffer objects, page tables, TLB invalidation, PASIDs.

pub(crate) mod bo;
pub(crate) mod gem;
pub(crate) mod pasid;
mod pgtable;
pub(crate) mod tlb;
pub(crate) mod vm;

pub(crate) use bo::{Bo, BoFlags, BoKind, BoRef};
pub(crate) use vm::Vm;
