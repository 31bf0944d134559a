//! Where does a server say that a thread begins to wait, and that it waits no more?
//!
//! Both flavours tell thread pools so by `thd_wait_begin` and `thd_wait_end`. The entries of these
//! two are no places to attach: MariaDB passes them whenever it waits for a client, which is once
//! a statement. So each of their callers is looked at, and only the calls are handed out that are
//! passed before waits worth a class. Neighbours: `callers` finds the calls, `waggle-probes`
//! attaches there, [`hook`](crate::hook) has the functions that are known by their entry.
//!
//! * The type is a constant in most callers; waits for the network and for the disk, which the
//!   system call tells as well, are left out, and metadata locks, whose own hook knows more.
//! * A caller may be a stub that the server keeps a pointer to, and jumps on (MariaDB's table
//!   locks). Begin and end are then two stubs; `scheduler_init` tells which belong together.
//! * MySQL does not announce the wait for a table's lock. It calls `pthread_cond_timedwait` for it
//!   in `thr_lock`, and for nothing else there.
//!
//! Invariant: every site is a call or a jump, which the kernel emulates, and the arguments are
//! where the callee takes them.

use iced_x86::{
    Code, Decoder, DecoderOptions, Instruction, InstructionInfoFactory, OpAccess, Register,
};
use object::{Object, ObjectSection};
use waggle_foreign::FileBytes;

use crate::callers;
use crate::elf::{Binary, Function};
use crate::hook::{Hook, HookSite};
use crate::site::{self, Site, TrapCost};

const WAIT_BEGIN: [&str; 2] = ["thd_wait_begin", "_Z14thd_wait_beginP3THDi"];
const WAIT_END: [&str; 2] = ["thd_wait_end", "_Z12thd_wait_endP3THD"];
const SCHEDULER_INIT: &str = "_Z14scheduler_initv";
const THR_LOCK: &str = "_Z8thr_lockP13THR_LOCK_DATAP13THR_LOCK_INFO13thr_lock_typem";
const SLOW_APPLICABLE: &str = "_Z19log_slow_applicableP3THD";
const ROUTINE_STATEMENT: &str = "_ZN13sp_instr_stmt7executeEP3THDPj";
const COND_TIMEDWAIT: &str = "pthread_cond_timedwait";

/// True for the functions that marks need from a server binary.
pub fn wanted(name: &str) -> bool {
    let exact = [SCHEDULER_INIT, THR_LOCK, SLOW_APPLICABLE, ROUTINE_STATEMENT];
    exact.contains(&name) || WAIT_BEGIN.contains(&name) || WAIT_END.contains(&name)
}

/// Types of `thd_wait_begin`, as far as they are told apart here.
mod wait_type {
    pub(super) const DISK: u32 = 2;
    pub(super) const METADATA: u32 = 5;
    pub(super) const TABLE: u32 = 6;
    pub(super) const GROUP_COMMIT: u32 = 9;
    /// MariaDB's, of a file that is synchronised; and of the client.
    pub(super) const SYNC: u32 = 10;
    pub(super) const NET: u32 = 11;
}

/// The places of one build, and what is missing with its reason.
#[derive(Debug, Clone, Default)]
pub struct Marks {
    /// [`Hook::WaitBegin`], [`Hook::WaitEnd`] and [`Hook::TableWait`], each perhaps several times.
    pub sites: Vec<HookSite>,
    /// What cannot be told, and why.
    pub missing: Vec<(Hook, String)>,
}

impl Marks {
    /// Finds every mark of `binary`, which was opened with [`wanted`].
    pub fn find(binary: &Binary) -> Self {
        let mut marks = Self::default();
        let any = |names: [&str; 2]| names.iter().find_map(|name| binary.function(name));
        let (Some(begin), Some(end)) = (any(WAIT_BEGIN), any(WAIT_END)) else {
            let why = "the wait marks are not exported".to_owned();
            marks.missing.push((Hook::WaitBegin, why));
            return marks;
        };
        let callers = match callers::callers(binary, &[begin.address, end.address]) {
            Ok(callers) => callers,
            Err(error) => {
                marks.missing.push((Hook::WaitBegin, error.to_string()));
                return marks;
            }
        };
        let knows_redo = Hook::RedoWrite.find(binary).is_ok();
        for caller in &callers {
            let begins = begins(caller, &begin, knows_redo);
            let ends = callers::calls(caller, end.address);
            // Without an end a wait would never be over.
            if !begins.is_empty() && !ends.is_empty() {
                marks.add(Hook::WaitBegin, caller, &begins);
                marks.add(Hook::WaitEnd, caller, &ends);
            }
        }
        marks.add_stubs(binary, &callers, &begin, &end);
        marks.add_table_waits(binary);
        marks
    }

    fn add(&mut self, hook: Hook, function: &Function, at: &[u64]) {
        let sites = at.iter().filter_map(|at| site_at(hook, function, *at));
        self.sites.extend(sites);
    }

    /// A stub that begins a wait for a table's lock, with the one that ends it.
    fn add_stubs(
        &mut self,
        binary: &Binary,
        callers: &[Function],
        begin: &Function,
        end: &Function,
    ) {
        let pairs = binary.function(SCHEDULER_INIT).map(|f| stub_pairs(&f));
        let stub = |address: u64| callers.iter().find(|f| f.address == address);
        for (begins, ends) in pairs.unwrap_or_default() {
            let (Some(begins), Some(ends)) = (stub(begins), stub(ends)) else {
                continue;
            };
            let jumps = callers::tail_calls(begins, begin.address);
            let is_table = |at: &u64| constant_type(begins, *at) == Some(wait_type::TABLE);
            if !jumps.is_empty() && jumps.iter().all(is_table) {
                self.add(Hook::WaitBegin, begins, &jumps);
                self.add(Hook::WaitEnd, ends, &callers::tail_calls(ends, end.address));
            }
        }
    }

    fn add_table_waits(&mut self, binary: &Binary) {
        let Some(function) = binary.function(THR_LOCK) else {
            return;
        };
        let waits = import_stub(binary, &function, COND_TIMEDWAIT);
        let Some(stub) = waits else {
            let why = format!("{THR_LOCK} does not call {COND_TIMEDWAIT}");
            return self.missing.push((Hook::TableWait, why));
        };
        self.add(Hook::TableWait, &function, &callers::calls(&function, stub));
    }
}

/// Where a statement within a routine ends, with its `THD` as first argument: MySQL's do not pass
/// `log_slow_statement`, but call the first half of it. `None` on MariaDB, whose routines pass it
/// (if `log_slow_disabled_statements` is without `sp`, which it is not by default; functions and
/// triggers do in any case).
///
/// # Errors
/// The build is MySQL's, but does not show the place; says why.
pub fn routine_end(binary: &Binary) -> Result<Option<Site>, String> {
    let Some(end) = binary.function(SLOW_APPLICABLE) else {
        return Ok(None);
    };
    let statement = binary.function(ROUTINE_STATEMENT);
    let statement = statement.ok_or_else(|| format!("{ROUTINE_STATEMENT} is not exported"))?;
    let calls = callers::calls(&statement, end.address);
    let [call] = calls[..] else {
        let count = calls.len();
        return Err(format!(
            "{ROUTINE_STATEMENT} calls {SLOW_APPLICABLE} {count} times"
        ));
    };
    let found = site_at(Hook::RoutineStatementEnd, &statement, call);
    let found = found.ok_or_else(|| format!("{ROUTINE_STATEMENT} is cut off"))?;
    Ok(Some(found.site))
}

/// The calls of `begin` in `caller` whose wait gets its class from nothing else.
fn begins(caller: &Function, begin: &Function, knows_redo: bool) -> Vec<u64> {
    let mut calls = callers::calls(caller, begin.address);
    calls.retain(|at| match constant_type(caller, *at) {
        Some(wait_type::GROUP_COMMIT) => !knows_redo,
        Some(kind) => {
            use wait_type::{DISK, METADATA, NET, SYNC};
            ![DISK, METADATA, SYNC, NET].contains(&kind)
        }
        // Rows' and tables' locks of the engine: the type is known when the call is passed.
        None => true,
    });
    calls
}

/// The constant that `function` has in `esi` when it comes to `at`; `None` if it is none, or if
/// there is another way to get there.
pub(crate) fn constant_type(function: &Function, at: u64) -> Option<u32> {
    let mut factory = InstructionInfoFactory::new();
    let mut last: Option<(u64, u32)> = None;
    let mut targets = Vec::new();
    for instruction in &mut decoder(function) {
        targets.extend(branch_target(&instruction));
        if instruction.ip() >= at {
            continue;
        }
        if instruction.code() == Code::Mov_r32_imm32 && instruction.op0_register() == Register::ESI
        {
            last = Some((instruction.ip(), instruction.immediate32()));
        } else if writes(&mut factory, &instruction, Register::RSI) || is_call(&instruction) {
            last = None;
        }
    }
    let (set, value) = last?;
    let is_between = |target: &u64| (set + 1..=at).contains(target);
    (!targets.iter().any(is_between)).then_some(value)
}

/// The functions of which `function` hands out two pointers at once, as first and second argument.
fn stub_pairs(function: &Function) -> Vec<(u64, u64)> {
    let (mut first, mut second) = (None, None);
    let mut pairs = Vec::new();
    for instruction in &mut decoder(function) {
        let is_near = instruction.is_ip_rel_memory_operand();
        match (instruction.code(), instruction.op0_register()) {
            (Code::Lea_r64_m, Register::RDI) if is_near => {
                first = Some(instruction.memory_displacement64());
            }
            (Code::Lea_r64_m, Register::RSI) if is_near => {
                second = Some(instruction.memory_displacement64());
            }
            _ => {}
        }
        if is_call(&instruction) || instruction.code() == Code::Jmp_rel32_64 {
            pairs.extend(first.take().zip(second.take()));
        }
    }
    pairs
}

/// The stub through which `function` calls what another file exports as `name`.
fn import_stub(binary: &Binary, function: &Function, name: &str) -> Option<u64> {
    let bytes = FileBytes::new(binary.file()).ok()?;
    let elf = bytes.elf().ok()?;
    let symbols = elf.dynamic_symbol_table()?;
    let slots: Vec<u64> = elf
        .dynamic_relocations()?
        .filter(|(_, relocation)| {
            use object::{ObjectSymbol, ObjectSymbolTable, RelocationTarget};
            let RelocationTarget::Symbol(index) = relocation.target() else {
                return false;
            };
            let symbol = symbols.symbol_by_index(index);
            symbol.is_ok_and(|s| s.name() == Ok(name))
        })
        .map(|(slot, _)| slot)
        .collect();
    let mut targets: Vec<u64> = decoder(function)
        .iter()
        .filter(|i| i.code() == Code::Call_rel32_64)
        .map(|i| i.near_branch_target())
        .collect();
    targets.sort_unstable();
    targets.dedup();
    targets
        .into_iter()
        .find(|target| stub_slot(&elf, *target).is_some_and(|slot| slots.contains(&slot)))
}

/// Where the stub at `address` finds the address that it jumps to.
fn stub_slot<'a>(elf: &impl Object<'a>, address: u64) -> Option<u64> {
    /// `endbr64` and a jump through memory, the longest stub.
    const BYTES: u64 = 16;
    let data = elf
        .sections()
        .find(|s| s.address() <= address && address - s.address() < s.size())?
        .data_range(address, BYTES)
        .ok()??;
    let mut decoder = Decoder::with_ip(64, data, address, DecoderOptions::NONE);
    let mut jumps = decoder
        .iter()
        .take(2)
        .filter(|i| i.code() == Code::Jmp_rm64 && i.is_ip_rel_memory_operand());
    jumps.next().map(|i| i.memory_displacement64())
}

fn decoder(function: &Function) -> Decoder<'_> {
    Decoder::with_ip(64, &function.code, function.address, DecoderOptions::NONE)
}

fn is_call(instruction: &Instruction) -> bool {
    instruction.is_call_near() || instruction.is_call_near_indirect()
}

fn branch_target(instruction: &Instruction) -> Option<u64> {
    let jumps = instruction.is_jcc_short_or_near() || instruction.is_jmp_short_or_near();
    jumps.then(|| instruction.near_branch_target())
}

fn writes(
    factory: &mut InstructionInfoFactory,
    instruction: &Instruction,
    register: Register,
) -> bool {
    let writing = [
        OpAccess::Write,
        OpAccess::CondWrite,
        OpAccess::ReadWrite,
        OpAccess::ReadCondWrite,
    ];
    let used = factory.info(instruction).used_registers();
    used.iter()
        .any(|u| u.register().full_register() == register && writing.contains(&u.access()))
}

/// The call or jump at `at`.
fn site_at(hook: Hook, function: &Function, at: u64) -> Option<HookSite> {
    let offset = at.checked_sub(function.address)?;
    let start = usize::try_from(offset).ok()?;
    let bytes = function.code.get(start..start + 5)?.to_vec();
    let arguments: &[u8] = match hook {
        Hook::WaitBegin => &[7, 6],
        Hook::WaitEnd => &[7],
        _ => &[],
    };
    Some(HookSite {
        hook,
        site: Site {
            function: function.name.clone(),
            file_offset: function.file_offset + offset,
            function_offset: offset,
            instruction: if bytes[0] == 0xe8 { "call" } else { "jmp" }.into(),
            bytes,
            register: site::Register(7),
            trap: TrapCost::Emulated,
        },
        arguments: arguments.iter().map(|r| site::Register(*r)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(code: &[u8]) -> Function {
        Function {
            name: "f".into(),
            address: 0x1000,
            file_offset: 0,
            code: code.to_vec(),
        }
    }

    /// `mov $6, %esi; xor %edi, %edi; call 0x1100`
    const PLAIN: [u8; 12] = [0xbe, 6, 0, 0, 0, 0x31, 0xff, 0xe8, 0xf4, 0, 0, 0];

    #[test]
    fn a_constant_is_found() {
        let f = function(&PLAIN);
        assert_eq!(callers::calls(&f, 0x1100), [0x1007]);
        assert_eq!(constant_type(&f, 0x1007), Some(6));
    }

    #[test]
    fn a_constant_that_a_branch_passes_by_is_none() {
        // A jump from behind to the `xor` may come with another type.
        let mut code = PLAIN.to_vec();
        code.extend([0xeb, 0xf7]);
        assert_eq!(constant_type(&function(&code), 0x1007), None);
        // One to the `mov` comes with this one.
        *code.last_mut().unwrap() = 0xf2;
        assert_eq!(constant_type(&function(&code), 0x1007), Some(6));
        // Computed: `lea 3(%rsi,%rsi,2), %esi`.
        let computed = [0x8d, 0x74, 0x76, 0x03, 0xe8, 0xf7, 0, 0, 0];
        assert_eq!(constant_type(&function(&computed), 0x1004), None);
    }

    #[test]
    fn stubs_are_paired_by_who_hands_them_out() {
        // lea 0x10(%rip),%rsi; lea 0x20(%rip),%rdi; call
        let code = [
            0x48, 0x8d, 0x35, 0x10, 0, 0, 0, 0x48, 0x8d, 0x3d, 0x20, 0, 0, 0, 0xe8, 0, 0, 0, 0,
        ];
        assert_eq!(stub_pairs(&function(&code)), [(0x102e, 0x1017)]);
        for length in 0..code.len() {
            assert!(stub_pairs(&function(&code[..length])).len() <= 1);
        }
    }
}
