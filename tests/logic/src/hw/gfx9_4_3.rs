// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rust/hw/gfx9_4_3`.

#[allow(clippy::all)]
#[path = "../../../../rust/hw/gfx9_4_3/caps.rs"]
mod caps;
#[allow(clippy::all)]
#[path = "../../../../rust/hw/gfx9_4_3/format.rs"]
mod format;
#[allow(clippy::all)]
#[path = "../../../../rust/hw/gfx9_4_3/trap.rs"]
mod trap;

/// Numbers of the generation.
pub(crate) static CAPS: &crate::asic::caps::Caps = &caps::CAPS;

pub(super) mod gmc {
    pub(crate) struct Gmc;
}

#[cfg(test)]
mod tests {
    use rkfd_abi::pte;

    use super::gmc::Gmc;
    use crate::hw::{Mtype, PageFormat, PteAttrs};

    fn mtype_of(attrs: PteAttrs) -> u64 {
        pte::MTYPE.get(Gmc.pte_flags(attrs))
    }

    /// The memory type of a mapping counts where the driver's own would be NC: for VRAM elsewhere
    /// (`gmc_v9_0_get_vm_pte()`, `gmc_v9_0_get_coherence_flags()`).
    #[test]
    fn memory_types() {
        let all = [
            (Mtype::NonCoherent, pte::MTYPE_NC),
            (Mtype::ReadWrite, pte::MTYPE_RW),
            (Mtype::Coherent, pte::MTYPE_CC),
            (Mtype::Uncached, pte::MTYPE_UC),
        ];
        for (mtype, elsewhere) in all {
            let remote = PteAttrs {
                mtype,
                ..PteAttrs::default()
            };
            assert_eq!(mtype_of(remote), elsewhere, "{mtype:?}");
            let local = PteAttrs {
                local: true,
                ..remote
            };
            assert_eq!(mtype_of(local), pte::MTYPE_RW);
            let coherent = PteAttrs {
                ext_coherent: true,
                ..local
            };
            assert_eq!(mtype_of(coherent), pte::MTYPE_CC);
            for uncached in [
                PteAttrs {
                    system: true,
                    ..remote
                },
                PteAttrs {
                    uncached: true,
                    ..local
                },
                PteAttrs {
                    ext_coherent: true,
                    ..remote
                },
            ] {
                assert_eq!(mtype_of(uncached), pte::MTYPE_UC);
            }
        }
    }
}
