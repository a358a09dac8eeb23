// SPDX-License-Identifier: GPL-2.0

//! User-visible names of features of the SMU: those of `__smu_feature_names` (`smu_cmn.c`) at the
//! bits of `smu_v13_0_6_feature_mask_map` (`smu_v13_0_6_ppt.c`). Other features have none.

/// Bits and names. A feature with several names has the one that `smu_cmn_get_pp_feature_mask`
/// finds last.
pub(super) const NAMES: [(u32, &str); 25] = [
    (0, "DATA_CALCULATIONS"),
    (2, "DPM_FCLK"),
    (3, "DPM_GFXCLK"),
    (4, "DPM_LCLK"),
    (5, "DPM_SOCCLK"),
    (6, "DPM_UCLK"),
    (7, "DPM_DCLK"),
    (8, "DPM_XGMI"),
    (9, "DS_FCLK"),
    (10, "DS_GFXCLK"),
    (11, "DS_LCLK"),
    (12, "DS_MP0CLK"),
    (13, "DS_MP1CLK"),
    (14, "DS_MPIOCLK"),
    (15, "DS_SOCCLK"),
    (16, "DS_VCN"),
    (17, "APCC_DFLL"),
    (19, "DF_CSTATE"),
    (23, "PPT"),
    (24, "TDC"),
    (25, "THERMAL"),
    (35, "FW_CTF"),
    (36, "GFXOFF"),
    (37, "MP1_CG"),
    (40, "XGMI_PER_LINK_PWR_DWN"),
];
