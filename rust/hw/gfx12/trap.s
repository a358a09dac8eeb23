// SPDX-License-Identifier: GPL-2.0

// First-level trap handler of gfx12.
//
// A wave enters it, privileged, at its first instruction: for s_trap, an exception, a debugger, or
// to save its context (EXCP_FLAG_PRIV.SAVE_CONTEXT). A wave that is restored starts at the second
// instruction.
//
// Traps and exceptions go to the second-level handler, the runtime's, which expects
//
//	ttmp[0:1]	as on entry: program counter [47:0], trap id [63:60]; and the program's
//			SCHED_MODE in [59:58]
//	ttmp11		debugger in [23], SCHED_MODE in [27:26]; the rest as on entry
//	ttmp12		STATE_PRIV, which this code changes
//	ttmp[14:15]	address of the second-level handler's memory
//
// and ttmp6 to ttmp10 as initialised by SPI. The memory of this handler (SQ_SHADER_TMA) has the
// address of the second-level handler at 0, that of its memory at 8, and at 16 whether a debugger
// is attached. Without a second level a trap has no effect, and any other cause halts the wave.
//
// To save a wave, hardware replies to MSG_RTN_SAVE_WAVE with the address of the wave's record, and
// bit 58 in one wave of each workgroup, whose record has the LDS. AMD's debugger library reads the
// record: VGPRs of 32 or 64 lanes, 128 SGPRs, 16 hardware registers (M0, PC, EXEC, STATE_PRIV,
// EXCP_FLAG_PRIV, 0, MODE, SCRATCH_BASE, EXCP_FLAG_USER, TRAP_CTRL, STATUS, state of the barrier),
// 16 trap temporaries (4 to 11 and 13), LDS. There are no scalar stores: all goes through v0 to v3.
//
// After a vector instruction has read an SGPR and a scalar one has written it, the next read may
// get the old value, unless it waits. The program may have read all. M0 and EXEC are exempt.
//
// tests/handler compares trap.rs with this file, runs it, and checks it for such hazards.

// Waits for writes of SGPRs by the scalar ALU.
.macro settle
	s_wait_alu	depctr_sa_sdst(0)
.endm

	s_branch	entry
	s_branch	restore

entry:
	// SCHED_MODE, which the assembler has no name for: this code waits for nothing that the
	// hardware does not wait for itself in its normal mode.
	s_getreg_b32	ttmp2, hwreg(26, 0, 2)
	s_wait_alu	0
	s_setreg_imm32_b32 hwreg(26, 0, 2), 0
	s_getreg_b32	ttmp12, hwreg(HW_REG_STATE_PRIV)
	s_lshl_b32	ttmp2, ttmp2, 26
	s_and_not1_b32	ttmp11, ttmp11, 0x0c000000
	settle
	// Not restored: SYS_PRIO, the priority of a handler, and POISON_ERR.
	s_and_not1_b32	ttmp12, ttmp12, 0x8c00
	s_or_b32	ttmp11, ttmp11, ttmp2
	settle

	s_bitcmp1_b32	ttmp12, 14
	s_cbranch_scc0	running

	// Halted: saved, or trapped by the host. A memory violation of the instruction fetch would
	// trap again.
halted:
	s_getreg_b32	ttmp2, hwreg(HW_REG_EXCP_FLAG_PRIV)
	settle
	s_bitcmp1_b32	ttmp2, 7
	s_cbranch_scc1	second
	s_bitcmp1_b32	ttmp2, 5
	s_cbranch_scc1	save
	s_sleep		16
	s_branch	halted

	// A trap, or an exception that cannot be masked (memory violation, illegal instruction, of
	// the host or a debugger), or one that TRAP_CTRL enables. They come before SAVE_CONTEXT,
	// which is still set when the second level returns.
running:
	s_and_b32	ttmp2, ttmp1, 0xf0000000
	s_cbranch_scc1	second
	s_getreg_b32	ttmp14, hwreg(HW_REG_EXCP_FLAG_PRIV)
	s_getreg_b32	ttmp2, hwreg(HW_REG_EXCP_FLAG_USER)
	s_getreg_b32	ttmp15, hwreg(HW_REG_TRAP_CTRL)
	settle
	s_and_b32	ttmp3, ttmp14, 0xbd0
	s_cbranch_scc1	second
	// TRAP_AFTER_INST has no flag if SAVE_CONTEXT is set at the same time.
	s_bitset1_b32	ttmp2, 9
	s_and_b32	ttmp3, ttmp14, 0xf
	s_cselect_b32	ttmp3, 0x80, 0
	settle
	s_or_b32	ttmp2, ttmp2, ttmp3
	settle
	s_and_b32	ttmp2, ttmp2, ttmp15
	s_cbranch_scc1	second
	s_bitcmp1_b32	ttmp14, 5
	s_cbranch_scc1	save

	// Also for a cause that this code does not know: a return would enter it again.
second:
	// Where a second handler that knows of the mode looks for it; another returns without it.
	s_and_b32	ttmp2, ttmp11, 0x0c000000
	s_and_not1_b32	ttmp1, ttmp1, 0x0c000000
	s_sendmsg_rtn_b64 ttmp[14:15], sendmsg(MSG_RTN_GET_TMA)
	s_wait_kmcnt	0
	settle
	s_or_b32	ttmp1, ttmp1, ttmp2
	s_lshl_b64	ttmp[14:15], ttmp[14:15], 8
	settle
	// Addresses have 48 bits.
	s_sext_i32_i16	ttmp15, ttmp15
	s_load_b32	ttmp2, ttmp[14:15], 0x10 scope:SCOPE_SYS
	s_wait_kmcnt	0
	s_bitset0_b32	ttmp11, 23
	s_lshl_b32	ttmp2, ttmp2, 23
	settle
	s_or_b32	ttmp11, ttmp11, ttmp2
	s_load_b64	ttmp[2:3], ttmp[14:15], 0x0 scope:SCOPE_SYS
	s_wait_kmcnt	0
	s_load_b64	ttmp[14:15], ttmp[14:15], 0x8 scope:SCOPE_SYS
	s_wait_kmcnt	0
	s_cmp_eq_u64	ttmp[2:3], 0
	s_cbranch_scc1	no_second
	s_setpc_b64	ttmp[2:3]

no_second:
	s_and_b32	ttmp2, ttmp1, 0xf0000000
	s_cbranch_scc0	halt
	// Behind the s_trap.
	s_add_co_u32	ttmp0, ttmp0, 4
	s_add_co_ci_u32	ttmp1, ttmp1, 0
	s_branch	back
halt:
	// A trap that the host asked for is over when it was taken.
	s_getreg_b32	ttmp2, hwreg(HW_REG_EXCP_FLAG_PRIV, 7, 1)
	settle
	s_cmp_eq_u32	ttmp2, 0
	s_cbranch_scc0	back
	s_bitset1_b32	ttmp12, 14
	// A wave that is halted at s_endpgm cannot be saved.
	s_sub_co_u32	ttmp0, ttmp0, 8
	s_sub_co_ci_u32	ttmp1, ttmp1, 0

back:
	settle
	s_and_b32	ttmp1, ttmp1, 0xffff
	// EXECZ and VCCZ follow from writes only; whether a barrier is complete may have changed.
	s_and_b64	exec, exec, exec
	s_and_b64	vcc, vcc, vcc
	s_bfe_u32	ttmp2, ttmp11, 0x2001a
	s_lshr_b32	ttmp12, ttmp12, 9
	s_wait_alu	0
	s_setreg_b32	hwreg(26, 0, 2), ttmp2
	s_setreg_b32	hwreg(HW_REG_STATE_PRIV, 9, 7), ttmp12
	s_rfe_b64	ttmp[0:1]

// Sets ttmp[10:11] to the bytes of a VGPR, ttmp7 to the number of VGPRs, and ttmp[8:9] to the
// address of the record at ttmp[14:15].
.macro find_vgprs
	s_getreg_b32	ttmp10, hwreg(HW_REG_STATUS, 29, 1)
	s_lshl_b32	ttmp10, 0x80, ttmp10
	s_mov_b32	ttmp11, 0
	s_getreg_b32	ttmp7, hwreg(HW_REG_GPR_ALLOC, 12, 8)
	s_add_co_u32	ttmp7, ttmp7, 1
	s_lshl_b32	ttmp7, ttmp7, 2
	s_mov_b64	ttmp[8:9], ttmp[14:15]
.endm

// Waits for all waves of the workgroup: none changes LDS or the barrier any more, or all of both is
// restored.
.macro meet
	s_barrier_signal -2
	s_barrier_wait	-2
.endm

// Stores or loads VGPRs at ttmp[8:9], and advances it.
.macro put from:vararg
.irp reg, \from
	global_store_addtid_b32 \reg, ttmp[8:9] scope:SCOPE_SYS
	s_add_nc_u64	ttmp[8:9], ttmp[8:9], ttmp[10:11]
.endr
.endm

.macro get to:vararg
.irp reg, \to
	global_load_addtid_b32 \reg, ttmp[8:9] scope:SCOPE_SYS
	s_add_nc_u64	ttmp[8:9], ttmp[8:9], ttmp[10:11]
.endr
	s_wait_loadcnt	0
.endm

// Writes a hardware register to a lane of v0.
.macro note register, lane
	s_getreg_b32	m0, hwreg(\register)
	v_writelane_b32	v0, m0, \lane
.endm

save:
	// A wave that has released its VGPRs has nothing left to do.
	s_getreg_b32	ttmp2, hwreg(HW_REG_STATUS, 24, 1)
	s_and_b32	ttmp1, ttmp1, 0xffff
	settle
	s_cmp_eq_u32	ttmp2, 0
	s_cbranch_scc1	has_vgprs
	s_endpgm
has_vgprs:
	s_setreg_imm32_b32 hwreg(HW_REG_EXCP_FLAG_PRIV, 5, 1), 0
	s_mov_b64	ttmp[2:3], exec
	s_mov_b64	exec, 0
	s_sendmsg_rtn_b64 exec, sendmsg(MSG_RTN_SAVE_WAVE)
	s_wait_idle
	s_mov_b32	ttmp14, exec_lo
	s_and_b32	ttmp15, exec_hi, 0xffff
	// The bit of the first wave, at the same place above the program counter.
	s_and_b32	exec_hi, exec_hi, 0x04000000
	s_or_b32	ttmp1, ttmp1, exec_hi
	s_and_not1_b32	ttmp12, ttmp12, 4
	s_mov_b64	exec, -1
	settle
	global_store_addtid_b32 v0, ttmp[14:15] scope:SCOPE_SYS

	// Lanes of v0: hardware registers, then trap temporaries.
	v_mov_b32	v0, 0
	v_writelane_b32	v0, ttmp4, 20
	v_writelane_b32	v0, ttmp5, 21
	v_writelane_b32	v0, ttmp6, 22
	v_writelane_b32	v0, ttmp7, 23
	v_writelane_b32	v0, ttmp8, 24
	v_writelane_b32	v0, ttmp9, 25
	v_writelane_b32	v0, ttmp10, 26
	v_writelane_b32	v0, ttmp11, 27
	v_writelane_b32	v0, ttmp13, 29
	v_writelane_b32	v0, m0, 0
	v_writelane_b32	v0, ttmp0, 1
	s_and_b32	m0, ttmp1, 0xffff
	v_writelane_b32	v0, m0, 2
	v_writelane_b32	v0, ttmp2, 3
	v_writelane_b32	v0, ttmp3, 4
	meet
	s_getreg_b32	m0, hwreg(HW_REG_STATE_PRIV)
	s_and_b32	m0, m0, 4
	s_or_b32	m0, m0, ttmp12
	v_writelane_b32	v0, m0, 5
	note		HW_REG_EXCP_FLAG_PRIV, 6
	note		HW_REG_MODE, 8
	note		HW_REG_SCRATCH_BASE_LO, 9
	note		HW_REG_SCRATCH_BASE_HI, 10
	note		HW_REG_EXCP_FLAG_USER, 11
	note		HW_REG_TRAP_CTRL, 12
	note		HW_REG_STATUS, 13
	s_get_barrier_state ttmp2, -1
	s_wait_kmcnt	0
	settle
	v_writelane_b32	v0, ttmp2, 14
	// No SGPR counts as read any more (4 are enough for waves of 32 lanes).
.rept 8
	ds_nop
.endr
	find_vgprs
	s_mul_i32	ttmp2, ttmp7, ttmp10
	s_add_co_u32	ttmp2, ttmp2, 512
	s_mov_b32	ttmp3, 0
	s_add_nc_u64	ttmp[2:3], ttmp[2:3], ttmp[14:15]
	s_mov_b32	exec_hi, 0
	global_store_addtid_b32 v0, ttmp[2:3] scope:SCOPE_SYS
	s_mov_b32	exec_hi, -1

	s_add_nc_u64	ttmp[8:9], ttmp[8:9], ttmp[10:11]
	put		v1, v2, v3
	s_mov_b32	m0, 4
	s_branch	save_vgprs_end
save_vgprs:
	v_movrels_b32	v0, v0
	v_movrels_b32	v1, v1
	v_movrels_b32	v2, v2
	v_movrels_b32	v3, v3
	put		v0, v1, v2, v3
	s_add_co_u32	m0, m0, 4
save_vgprs_end:
	s_cmp_lt_u32	m0, ttmp7
	s_cbranch_scc1	save_vgprs

	// SGPRs, of which VCC is the last, as many with each store as there are lanes: the lane is
	// the number of the register modulo that.
	s_lshr_b32	ttmp5, ttmp10, 2
	s_sub_co_u32	ttmp5, ttmp5, 1
	v_mov_b32	v0, 0
	s_mov_b32	m0, 0
save_sgprs:
	s_movrels_b64	s[0:1], s[0:1]
	settle
	v_writelane_b32	v0, s0, m0
	s_add_co_u32	m0, m0, 1
	v_writelane_b32	v0, s1, m0
	s_add_co_u32	m0, m0, 1
	s_and_b32	ttmp4, m0, ttmp5
	s_cbranch_scc1	save_sgprs_more
	put		v0
save_sgprs_more:
	s_cmp_lt_u32	m0, 108
	s_cbranch_scc1	save_sgprs
	put		v0

	s_bitcmp1_b32	ttmp1, 26
	s_cbranch_scc0	saved
	// Behind hardware registers and trap temporaries.
	s_mov_b64	ttmp[8:9], ttmp[2:3]
	s_add_co_u32	ttmp8, ttmp8, 128
	s_add_co_ci_u32	ttmp9, ttmp9, 0
	s_getreg_b32	ttmp5, hwreg(HW_REG_LDS_ALLOC, 12, 9)
	s_lshl_b32	ttmp5, ttmp5, 9
	v_mbcnt_lo_u32_b32 v0, -1, 0
	v_mbcnt_hi_u32_b32 v0, -1, v0
	v_lshlrev_b32	v0, 2, v0
	s_mov_b32	m0, 0
	s_branch	save_lds_end
save_lds:
	v_add_nc_u32	v1, m0, v0
	ds_load_b32	v1, v1
	s_wait_dscnt	0
	put		v1
	s_add_co_u32	m0, m0, ttmp10
save_lds_end:
	s_cmp_lt_u32	m0, ttmp5
	s_cbranch_scc1	save_lds

saved:
	s_wait_storecnt	0
	// A wave that ends changes the barrier.
	meet
	s_endpgm_saved

restore:
	s_mov_b32	ttmp14, exec_lo
	s_and_b32	ttmp15, exec_hi, 0xffff
	s_mov_b32	ttmp13, exec_hi
	s_mov_b64	exec, -1
	find_vgprs
	s_lshl_b32	ttmp2, ttmp10, 2
	s_mov_b32	ttmp3, 0
	s_add_nc_u64	ttmp[8:9], ttmp[8:9], ttmp[2:3]
	s_mov_b32	m0, 4
	s_branch	restore_vgprs_end
restore_vgprs:
	get		v0, v1, v2, v3
	v_movreld_b32	v0, v0
	v_movreld_b32	v1, v1
	v_movreld_b32	v2, v2
	v_movreld_b32	v3, v3
	s_add_co_u32	m0, m0, 4
restore_vgprs_end:
	s_cmp_lt_u32	m0, ttmp7
	s_cbranch_scc1	restore_vgprs

	// ttmp[4:5]: SGPRs; ttmp[2:3]: hardware registers.
	s_mov_b64	ttmp[4:5], ttmp[8:9]
	s_add_co_u32	ttmp2, ttmp4, 512
	s_add_co_ci_u32	ttmp3, ttmp5, 0

	s_bitcmp1_b32	ttmp13, 26
	s_cbranch_scc0	restore_first_vgprs
	s_add_co_u32	ttmp8, ttmp2, 128
	s_add_co_ci_u32	ttmp9, ttmp3, 0
	s_getreg_b32	ttmp6, hwreg(HW_REG_LDS_ALLOC, 12, 9)
	s_lshl_b32	ttmp6, ttmp6, 9
	v_mbcnt_lo_u32_b32 v0, -1, 0
	v_mbcnt_hi_u32_b32 v0, -1, v0
	v_lshlrev_b32	v0, 2, v0
	s_mov_b32	m0, 0
	s_branch	restore_lds_end
restore_lds:
	get		v1
	v_add_nc_u32	v2, m0, v0
	ds_store_b32	v2, v1
	s_add_co_u32	m0, m0, ttmp10
restore_lds_end:
	s_cmp_lt_u32	m0, ttmp6
	s_cbranch_scc1	restore_lds

	// v0 to v3 last: they have the others on the way.
restore_first_vgprs:
	s_mov_b64	ttmp[8:9], ttmp[14:15]
	get		v0, v1, v2, v3

	// SGPRs from the last on.
	s_mov_b32	m0, 108
restore_sgprs:
	s_sub_co_u32	m0, m0, 4
	s_lshl_b32	ttmp6, m0, 2
	s_load_b128	s[0:3], ttmp[4:5], ttmp6 scope:SCOPE_SYS
	s_wait_kmcnt	0
	s_movreld_b64	s[0:1], s[0:1]
	s_movreld_b64	s[2:3], s[2:3]
	s_cmp_eq_u32	m0, 0
	s_cbranch_scc0	restore_sgprs

	s_load_b128	ttmp[4:7], ttmp[2:3], 0x20 scope:SCOPE_SYS
	s_load_b128	ttmp[8:11], ttmp[2:3], 0x30 scope:SCOPE_SYS
	s_wait_kmcnt	0
	s_setreg_b32	hwreg(HW_REG_MODE), ttmp4
	s_setreg_b32	hwreg(HW_REG_SCRATCH_BASE_LO), ttmp5
	s_setreg_b32	hwreg(HW_REG_SCRATCH_BASE_HI), ttmp6
	s_setreg_b32	hwreg(HW_REG_EXCP_FLAG_USER), ttmp7
	s_mov_b32	ttmp14, ttmp8
	// The first wave repeats the signals, if the workgroup has a barrier.
	s_bitcmp1_b32	ttmp13, 26
	s_cbranch_scc0	restore_registers
	s_bitcmp1_b32	ttmp10, 0
	s_cbranch_scc0	restore_registers
	s_bfe_u32	ttmp10, ttmp10, 0x70010
	s_branch	restore_signals_end
restore_signals:
	s_barrier_signal -1
	s_sub_co_u32	ttmp10, ttmp10, 1
restore_signals_end:
	s_cmp_eq_u32	ttmp10, 0
	s_cbranch_scc0	restore_signals

restore_registers:
	s_load_b128	ttmp[4:7], ttmp[2:3], 0x0 scope:SCOPE_SYS
	s_load_b128	ttmp[8:11], ttmp[2:3], 0x10 scope:SCOPE_SYS
	s_wait_kmcnt	0
	s_mov_b32	m0, ttmp4
	s_mov_b32	ttmp0, ttmp5
	s_and_b32	ttmp1, ttmp6, 0xffff
	s_mov_b32	exec_lo, ttmp7
	s_mov_b32	exec_hi, ttmp8
	s_mov_b32	ttmp12, ttmp9
	// Neither SAVE_CONTEXT nor HOST_TRAP, which may be set again.
	s_setreg_b32	hwreg(HW_REG_EXCP_FLAG_PRIV, 0, 5), ttmp10
	s_lshr_b32	ttmp10, ttmp10, 6
	s_setreg_b32	hwreg(HW_REG_EXCP_FLAG_PRIV, 6, 1), ttmp10
	s_lshr_b32	ttmp10, ttmp10, 2
	s_setreg_b32	hwreg(HW_REG_EXCP_FLAG_PRIV, 8, 24), ttmp10
	s_load_b128	ttmp[4:7], ttmp[2:3], 0x50 scope:SCOPE_SYS
	s_load_b128	ttmp[8:11], ttmp[2:3], 0x60 scope:SCOPE_SYS
	s_load_b32	ttmp13, ttmp[2:3], 0x74 scope:SCOPE_SYS
	s_wait_idle
	s_and_b64	exec, exec, exec
	s_and_b64	vcc, vcc, vcc
	s_bfe_u32	ttmp2, ttmp11, 0x2001a
	s_wait_alu	0
	s_setreg_b32	hwreg(26, 0, 2), ttmp2
	s_setreg_b32	hwreg(HW_REG_STATE_PRIV), ttmp12
	// LDS and the barrier are complete.
	meet
	s_setreg_b32	hwreg(HW_REG_TRAP_CTRL), ttmp14
	s_rfe_b64	ttmp[0:1]
