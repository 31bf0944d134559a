//! One Lua state: the prelude, a script loaded into it, its options, and calls into it.
//!
//! Every worker thread has its own, as scripts for sysbench expect: the file's top level runs once
//! a state, and nothing is shared between states. [`declared`] has the script's options, on their
//! way from Lua and back.

mod declared;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use mlua::{Function, Lua, Table, Value};

use crate::context::Context;
use crate::options::{self, DeclaredOption, OptionValue};
use crate::prelude::{self, Prelude};
use crate::rand::{Rand, RandSettings};
use crate::script::Script;
use crate::spec::LogSink;
use crate::{Dialect, LoadError, LoadSpec, WorkerError};

/// What a state is made from, beside its context.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) script: Script,
    pub(crate) given: BTreeMap<String, String>,
    pub(crate) threads: u32,
    pub(crate) seed: u64,
    /// `run`, `prepare`, ...: scripts ask for it. Empty if none was given.
    pub(crate) command: String,
    pub(crate) argv: Vec<String>,
    pub(crate) dialect: Dialect,
    pub(crate) ps_mode: &'static str,
    /// Options of the caller, which scripts see and cannot declare.
    pub(crate) general: BTreeMap<String, OptionValue>,
    /// What the first state made of the options: later ones have it before the script is loaded.
    pub(crate) resolved: Arc<OnceLock<BTreeMap<String, OptionValue>>>,
    pub(crate) log: LogSink,
}

impl Setup {
    pub(crate) fn new(spec: &LoadSpec, command: &str, log: LogSink) -> Setup {
        Setup {
            script: spec.script.clone(),
            given: spec.options.clone(),
            threads: spec.threads,
            seed: spec.seed,
            command: command.to_owned(),
            argv: spec.argv.clone(),
            dialect: spec.dialect,
            ps_mode: if spec.client_prepare {
                "disable"
            } else {
                "auto"
            },
            general: spec.general_options.clone(),
            resolved: Arc::default(),
            log,
        }
    }
}

/// How a call into the script ended.
#[derive(Debug, PartialEq)]
pub(crate) enum Called {
    /// With this truth value (`None`: nothing was returned).
    Done(Option<bool>),
    /// The run is over.
    Stopped,
    Failed(Box<WorkerError>),
}

/// A command of a script.
#[derive(Debug)]
pub(crate) struct Command {
    function: Function,
    /// To be called in every thread, each in a state of its own.
    pub(crate) parallel: bool,
}

pub(crate) struct State {
    thread: u32,
    prelude: Prelude,
    declared: Vec<DeclaredOption>,
    /// How many of those are the script's own; they come first.
    own_options: usize,
    // Dropped in this order: Lua first, because it holds the address of the context.
    lua: Lua,
    context: OwnedContext,
}

/// The context at an address that does not move and that the prelude holds too.
struct OwnedContext(*mut Context);

impl OwnedContext {
    /// Calls `change` with the context; never while Lua runs.
    fn with<T>(&mut self, change: impl FnOnce(&mut Context) -> T) -> T {
        // SAFETY: the address came from a box and is freed in `drop` only; the state is used by
        // one thread and no call into Lua is under way, so there is no other reference.
        change(unsafe { &mut *self.0 })
    }
}

impl Drop for OwnedContext {
    fn drop(&mut self) {
        // SAFETY: made by Box::into_raw, dropped once.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl State {
    /// Loads the script, runs its top level and resolves its options.
    pub(crate) fn open(setup: &Setup, thread: u32, context: Context) -> Result<State, LoadError> {
        let broken = broken(setup);
        // SAFETY: scripts are programs of the user that run with the user's rights anyway; they
        // need the FFI, which no sandbox could contain. The options are mlua's own: they leave
        // pcall as it is, and a pcall that mlua wraps would end every trace of a worker's loop.
        let lua = unsafe { Lua::unsafe_new() };
        let mut context = OwnedContext(Box::into_raw(Box::new(context)));
        let driver_name = context.with(|context| context.driver_name().to_owned());
        let prelude = Prelude::load(&lua, setup, context.0, &driver_name).map_err(broken)?;
        prelude::describe_run(&lua, setup, thread, &driver_name).map_err(broken)?;
        prelude::redirect_print(&lua, thread, &setup.log).map_err(broken)?;
        prelude::provide_modules(&lua, &setup.script).map_err(broken)?;
        lua.load(setup.script.text())
            .set_name(setup.script.chunk_name())
            .exec()
            .map_err(broken)?;
        let declares = declared::has_options(&lua).map_err(broken)?;
        let mut declared = declared::options(&prelude, setup)?;
        let own_options = declared.len();
        declared.extend(options::general(setup.dialect));
        let is_legacy = setup.dialect == Dialect::V1_0 && !declares;
        let values = options::resolve(&setup.script, &declared, &setup.given, is_legacy)?;
        let rand_settings = options::rand_settings(&values)?;
        declared::hand_over(&lua, setup, &declared, &values, is_legacy).map_err(broken)?;
        let validate = prelude.function("validate_options").map_err(broken)?;
        validate.call::<()>(()).map_err(broken)?;
        // The first state's; the others come to the same.
        let _ = setup.resolved.set(values);
        context.with(|context| {
            context.rand = seeded(setup, thread, rand_settings, context.unique_source());
        });
        Ok(State {
            thread,
            prelude,
            declared,
            own_options,
            lua,
            context,
        })
    }

    /// Index of the thread this state belongs to.
    pub(crate) fn thread(&self) -> u32 {
        self.thread
    }

    /// What the script declares, and the options every script has.
    pub(crate) fn declared(&self) -> &[DeclaredOption] {
        &self.declared
    }

    /// What the script itself declares.
    pub(crate) fn own_options(&self) -> &[DeclaredOption] {
        &self.declared[..self.own_options]
    }

    pub(crate) fn lua(&self) -> &Lua {
        &self.lua
    }

    /// A global function of the script.
    pub(crate) fn global(&self, name: &str) -> Option<Function> {
        self.lua
            .globals()
            .get::<Option<Function>>(name)
            .ok()
            .flatten()
    }

    /// A command of `sysbench.cmdline.commands`, else a global function of that name.
    pub(crate) fn command(&self, name: &str) -> Option<Command> {
        let entry = self.commands_table()?.get::<Option<Table>>(name).ok()?;
        if let Some(entry) = entry {
            let function = entry.get::<Function>(1).ok()?;
            let parallel = is_parallel(&entry);
            return Some(Command { function, parallel });
        }
        Some(Command {
            function: self.global(name)?,
            parallel: false,
        })
    }

    /// Names of the script's own commands, and whether each runs in all threads.
    pub(crate) fn commands(&self) -> Vec<(String, bool)> {
        let pairs = self.commands_table().into_iter();
        let mut commands: Vec<_> = pairs
            .flat_map(|table| table.pairs::<String, Table>().flatten().collect::<Vec<_>>())
            .map(|(name, entry)| (name, is_parallel(&entry)))
            .collect();
        commands.sort();
        commands
    }

    /// `sysbench.cmdline.commands`; an empty table where the script has none.
    fn commands_table(&self) -> Option<Table> {
        let cmdline: Table = prelude::sysbench(&self.lua).ok()?.get("cmdline").ok()?;
        let commands = cmdline.get::<Option<Table>>("commands").ok()?;
        commands.or_else(|| self.lua.create_table().ok())
    }

    pub(crate) fn call_command(&mut self, command: &Command) -> Called {
        self.call(&command.function)
    }

    /// Calls a global function with the thread's number, if there is one.
    pub(crate) fn call_if_defined(&mut self, name: &str) -> Called {
        match self.global(name) {
            Some(function) => match self.call(&function) {
                Called::Failed(mut error) => {
                    error.function = Some(name.to_owned());
                    Called::Failed(error)
                }
                called => called,
            },
            None => Called::Done(None),
        }
    }

    fn call(&mut self, function: &Function) -> Called {
        match self.call_with(function, self.thread) {
            Ok(value) => Called::Done(value.as_boolean()),
            Err(Some(error)) => Called::Failed(error),
            Err(None) => Called::Stopped,
        }
    }

    /// Calls a function of the script with an argument; an error that is `None`: the run is over.
    pub(crate) fn call_with(
        &mut self,
        function: &Function,
        argument: impl mlua::IntoLua,
    ) -> Result<Value, Option<Box<WorkerError>>> {
        let answer: mlua::Result<(Option<Table>, Value)> =
            self.prelude.guarded.call((function, argument));
        match answer {
            Ok((None, value)) => Ok(value),
            Ok((Some(failure), _)) => Err(self.describe(&failure)),
            // The prelude catches what a script raises; this is out of memory and the like.
            Err(error) => Err(Some(Box::new(WorkerError::plain(
                self.thread,
                lua_message(&error),
            )))),
        }
    }

    /// `None`: the run is over.
    fn describe(&self, failure: &Table) -> Option<Box<WorkerError>> {
        if failure.get::<bool>("stopped").unwrap_or(false) {
            return None;
        }
        let text = |key: &str| {
            let value = failure.get::<Option<mlua::LuaString>>(key).ok().flatten()?;
            Some(value.to_string_lossy()).filter(|text| !text.is_empty())
        };
        Some(Box::new(WorkerError {
            statement: text("query"),
            at: text("position"),
            errno: failure.get::<u16>("errno").ok().filter(|errno| *errno != 0),
            connecting: failure.get::<bool>("connecting").unwrap_or(false),
            answer: text("state").zip(text("words")),
            ..WorkerError::plain(self.thread, text("message").unwrap_or_default())
        }))
    }

    /// Says good-bye to the server on every connection the script left open.
    pub(crate) fn disconnect_all(&mut self) {
        self.context.with(Context::disconnect_all);
    }

    /// Closes what the reports of the script's hooks have left open.
    pub(crate) fn finish_reports(&mut self) {
        // The bodies are our own; an error has nobody to hear it.
        let _ = self
            .prelude
            .function("finish")
            .and_then(|finish| finish.call::<()>(()));
    }
}

/// What reports have left open is closed, however the state ends.
impl Drop for State {
    fn drop(&mut self) {
        self.finish_reports();
    }
}

fn is_parallel(command: &Table) -> bool {
    matches!(command.get::<Value>(2), Ok(Value::Boolean(true)))
}

/// Phases draw from streams of their own: what `prepare` loads does not depend on what a run
/// before it drew.
fn seeded(
    setup: &Setup,
    thread: u32,
    settings: RandSettings,
    unique: crate::rand::UniqueSource,
) -> Rand {
    let phase: u64 = if setup.command == "run" { 0 } else { 1 };
    Rand::new(
        setup.seed,
        (phase << 32) | u64::from(thread),
        settings,
        unique,
    )
}

/// What an error of Lua's is that comes while the state is made.
fn broken(setup: &Setup) -> impl Fn(mlua::Error) -> LoadError + Copy {
    move |error| LoadError::Script {
        script: setup.script.name().to_owned(),
        message: lua_message(&error),
    }
}

/// Lua's own words, with file and line, without the library's wrapping.
fn lua_message(error: &mlua::Error) -> String {
    match error {
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        mlua::Error::RuntimeError(message) => message
            .split("\nstack traceback:")
            .next()
            .unwrap_or(message)
            .to_owned(),
        mlua::Error::CallbackError { cause, .. } => lua_message(cause),
        other => other.to_string(),
    }
}
