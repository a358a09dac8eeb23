// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Trap handler of the tests of preemption.

/// Saves and restores s[0:7], v0 to v3, M0, EXEC and STATUS, all that the tests' kernels use; for a
/// trap it sends the doorbell with EC_QUEUE_WAVE_TRAP and halts the wave.
pub const HANDLER: [u32; 72] = [
    // s_branch main
    0xbf82_0001,
    // s_branch restore
    0xbf82_0029,
    // main: s_getreg_b32 ttmp12, hwreg(HW_REG_STATUS)
    0xb8f8_f802,
    // s_getreg_b32 ttmp2, hwreg(HW_REG_TRAPSTS)
    0xb8ee_f803,
    // s_bitcmp1_b32 ttmp2, 10
    0xbf0d_8a6e,
    // s_cbranch_scc1 save
    0xbf85_0006,
    // s_sendmsg sendmsg(MSG_GET_DOORBELL)
    0xbf90_000a,
    // s_or_b32 m0, exec_lo, 0x800
    0x877c_ff7e,
    0x0000_0800,
    // s_sendmsg sendmsg(MSG_INTERRUPT)
    0xbf90_0001,
    // s_sethalt 1
    0xbf8d_0001,
    // s_rfe_b64 ttmp[0:1]
    0xbe80_1f6c,
    // save: s_mov_b64 ttmp[2:3], exec
    0xbeee_017e,
    // s_mov_b64 exec, 0
    0xbefe_0180,
    // s_sendmsg sendmsg(MSG_SAVEWAVE)
    0xbf90_0004,
    // wait: s_sleep 1
    0xbf8e_0001,
    // s_cbranch_execz wait
    0xbf88_fffe,
    // s_mov_b32 ttmp8, exec_lo
    0xbef4_007e,
    // s_and_b32 ttmp9, exec_hi, 0xffff
    0x8675_ff7f,
    0x0000_ffff,
    // s_mov_b32 ttmp13, m0
    0xbef9_007c,
    // s_store_dwordx4 s[0:3], ttmp[8:9], 0x0
    0xc04a_003a,
    0x0000_0000,
    // s_store_dwordx4 ttmp[0:3], ttmp[8:9], 0x10
    0xc04a_1b3a,
    0x0000_0010,
    // s_store_dwordx4 s[4:7], ttmp[8:9], 0x30
    0xc04a_013a,
    0x0000_0030,
    // s_store_dwordx2 ttmp[12:13], ttmp[8:9], 0x20
    0xc046_1e3a,
    0x0000_0020,
    // s_bitset1_b32 ttmp9, 18
    0xbef5_1a92,
    // s_mov_b32 ttmp10, 64
    0xbef6_00c0,
    // s_mov_b32 ttmp11, 0x807fac
    0xbef7_00ff,
    0x0080_7fac,
    // s_mov_b64 exec, -1
    0xbefe_01c1,
    // buffer_store_dword v0, off, ttmp[8:11], 0 offset:256
    0xe070_0100,
    0x801d_0000,
    // buffer_store_dword v1, off, ttmp[8:11], 0 offset:512
    0xe070_0200,
    0x801d_0100,
    // buffer_store_dword v2, off, ttmp[8:11], 0 offset:768
    0xe070_0300,
    0x801d_0200,
    // buffer_store_dword v3, off, ttmp[8:11], 0 offset:1024
    0xe070_0400,
    0x801d_0300,
    // s_endpgm_saved
    0xbf9b_0000,
    // restore: s_mov_b32 ttmp8, exec_lo
    0xbef4_007e,
    // s_and_b32 ttmp9, exec_hi, 0xffff
    0x8675_ff7f,
    0x0000_ffff,
    // s_load_dwordx4 s[0:3], ttmp[8:9], 0x0
    0xc00a_003a,
    0x0000_0000,
    // s_load_dwordx4 ttmp[0:3], ttmp[8:9], 0x10
    0xc00a_1b3a,
    0x0000_0010,
    // s_load_dwordx4 s[4:7], ttmp[8:9], 0x30
    0xc00a_013a,
    0x0000_0030,
    // s_load_dwordx2 ttmp[12:13], ttmp[8:9], 0x20
    0xc006_1e3a,
    0x0000_0020,
    // s_waitcnt lgkmcnt(0)
    0xbf8c_c07f,
    // s_bitset1_b32 ttmp9, 18
    0xbef5_1a92,
    // s_mov_b32 ttmp10, 64
    0xbef6_00c0,
    // s_mov_b32 ttmp11, 0x807fac
    0xbef7_00ff,
    0x0080_7fac,
    // s_mov_b64 exec, -1
    0xbefe_01c1,
    // buffer_load_dword v0, off, ttmp[8:11], 0 offset:256
    0xe050_0100,
    0x801d_0000,
    // buffer_load_dword v1, off, ttmp[8:11], 0 offset:512
    0xe050_0200,
    0x801d_0100,
    // buffer_load_dword v2, off, ttmp[8:11], 0 offset:768
    0xe050_0300,
    0x801d_0200,
    // buffer_load_dword v3, off, ttmp[8:11], 0 offset:1024
    0xe050_0400,
    0x801d_0300,
    // s_mov_b32 m0, ttmp13
    0xbefc_0079,
    // s_mov_b64 exec, ttmp[2:3]
    0xbefe_016e,
    // s_setreg_b32 hwreg(HW_REG_STATUS), ttmp12
    0xb978_f802,
    // s_rfe_b64 ttmp[0:1]
    0xbe80_1f6c,
];
