// SPDX-License-Identifier: GPL-2.0

// The first of two trap handlers of gfx12. Waves come here, privileged, from an s_trap, an
// exception or a debugger. It makes what the second one, the runtime's, expects, and goes there:
//
//	ttmp[0:1]	as they came: program counter [47:0], trap id [63:60]; and the program's
//			SCHED_MODE in [59:58]
//	ttmp11		debugger in [23], SCHED_MODE in [27:26]; the rest as it came
//	ttmp12		STATE_PRIV, which this code changes
//	ttmp[14:15]	address of the second handler's memory
//
// ttmp6 to ttmp10 have what the dispatcher put there. The memory of this handler (SQ_SHADER_TMA)
// has the address of the second handler at 0, that of its memory at 8, and at 16 whether a debugger
// is there. Without a second handler a trap does nothing, and an exception halts the wave.
//
// Waves are not saved here. tests/handler compares trap.rs with this file.

	// SCHED_MODE, which the assembler has no name for: this code waits for nothing that the
	// hardware does not wait for itself in its normal mode.
	s_getreg_b32	ttmp2, hwreg(26)
	s_wait_alu	0
	s_setreg_imm32_b32 hwreg(26, 0, 2), 0
	s_getreg_b32	ttmp12, hwreg(HW_REG_STATE_PRIV)
	// Neither the elevated priority of a handler nor the note of a memory error come back.
	s_and_not1_b32	ttmp12, ttmp12, 0x8c00
	s_and_b32	ttmp2, ttmp2, 3
	s_lshl_b32	ttmp2, ttmp2, 26
	s_and_not1_b32	ttmp11, ttmp11, 0x0c000000
	s_or_b32	ttmp11, ttmp11, ttmp2

	// A trap, an exception that is always one (memory violation, illegal instruction, what a
	// host or a debugger asks for), or one that TRAP_CTRL enables; else the wave goes on.
	s_and_b32	ttmp2, ttmp1, 0xf0000000
	s_cbranch_scc1	second
	s_getreg_b32	ttmp2, hwreg(HW_REG_EXCP_FLAG_PRIV)
	s_and_b32	ttmp3, ttmp2, 0xbd0
	s_cbranch_scc1	second
	s_and_b32	ttmp3, ttmp2, 0xf
	s_cselect_b32	ttmp3, 0x80, 0
	s_getreg_b32	ttmp2, hwreg(HW_REG_EXCP_FLAG_USER)
	s_or_b32	ttmp2, ttmp2, ttmp3
	// A wave that is to trap after each instruction has no flag of it.
	s_bitset1_b32	ttmp2, 9
	s_getreg_b32	ttmp3, hwreg(HW_REG_TRAP_CTRL)
	s_and_b32	ttmp2, ttmp2, ttmp3
	s_cbranch_scc0	back

second:
	// Where a second handler that knows of the mode looks for it; another returns without it.
	s_and_b32	ttmp2, ttmp11, 0x0c000000
	s_and_not1_b32	ttmp1, ttmp1, 0x0c000000
	s_or_b32	ttmp1, ttmp1, ttmp2
	s_sendmsg_rtn_b64 ttmp[14:15], sendmsg(MSG_RTN_GET_TMA)
	s_wait_kmcnt	0
	s_lshl_b64	ttmp[14:15], ttmp[14:15], 8
	// Addresses have 48 bits.
	s_sext_i32_i16	ttmp15, ttmp15
	s_load_b32	ttmp2, ttmp[14:15], 0x10 scope:SCOPE_SYS
	s_wait_kmcnt	0
	s_bitset0_b32	ttmp11, 23
	s_lshl_b32	ttmp2, ttmp2, 23
	s_or_b32	ttmp11, ttmp11, ttmp2
	s_load_b64	ttmp[2:3], ttmp[14:15], 0x0 scope:SCOPE_SYS
	s_wait_kmcnt	0
	s_load_b64	ttmp[14:15], ttmp[14:15], 0x8 scope:SCOPE_SYS
	s_wait_kmcnt	0
	s_cmp_eq_u64	ttmp[2:3], 0
	s_cbranch_scc1	nobody
	s_setpc_b64	ttmp[2:3]

nobody:
	s_and_b32	ttmp2, ttmp1, 0xf0000000
	s_cbranch_scc0	halt
	// Behind the s_trap.
	s_add_co_u32	ttmp0, ttmp0, 4
	s_add_co_ci_u32	ttmp1, ttmp1, 0
	s_branch	back
halt:
	// A trap that the host asked for is over when it was taken.
	s_getreg_b32	ttmp2, hwreg(HW_REG_EXCP_FLAG_PRIV, 7, 1)
	s_cmp_eq_u32	ttmp2, 0
	s_cbranch_scc0	back
	s_bitset1_b32	ttmp12, 14

back:
	s_and_b32	ttmp1, ttmp1, 0xffff
	// EXECZ and VCCZ follow from writes only; whether a barrier is complete may have changed.
	s_and_b64	exec, exec, exec
	s_and_b64	vcc, vcc, vcc
	s_bfe_u32	ttmp2, ttmp11, 0x2001a
	s_lshr_b32	ttmp12, ttmp12, 9
	s_setreg_b32	hwreg(26, 0, 2), ttmp2
	s_setreg_b32	hwreg(HW_REG_STATE_PRIV, 9, 7), ttmp12
	s_rfe_b64	ttmp[0:1]
