//! One Lua state: the prelude, a script loaded into it, its options, and calls into it.
//!
//! Every worker thread has its own, as scripts for sysbench expect: the file's top level runs once
//! a state, and nothing is shared between states.

use std::collections::BTreeMap;

use mlua::{Function, LightUserData, Lua, Table, Value, Variadic};

use crate::context::Context;
use crate::options::{self, DeclaredOption, OptionValue, canonical_name};
use crate::rand::{Rand, RandSettings};
use crate::script::{self, Script};
use crate::spec::LogSink;
use crate::{LoadError, WorkerError, api};

/// What a state is made from, beside its context.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) script: Script,
    pub(crate) given: BTreeMap<String, String>,
    pub(crate) threads: u32,
    pub(crate) seed: u64,
    /// `run`, `prepare`, ...: scripts ask for it.
    pub(crate) command: String,
    pub(crate) log: LogSink,
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
    guarded: Function,
    declared: Vec<DeclaredOption>,
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
        let broken = |error: mlua::Error| LoadError::Script {
            script: setup.script.name().to_owned(),
            message: lua_message(&error),
        };
        // SAFETY: scripts are programs of the user that run with the user's rights anyway; they
        // need the FFI, which no sandbox could contain. The options are mlua's own: they leave
        // pcall as it is, and a pcall that mlua wraps would end every trace of a worker's loop.
        let lua = unsafe { Lua::unsafe_new() };
        let mut context = OwnedContext(Box::into_raw(Box::new(context)));
        let driver_name = context.with(|context| context.driver_name().to_owned());
        let guarded = load_prelude(&lua, context.0).map_err(broken)?;
        describe_run(&lua, setup, thread, &driver_name).map_err(broken)?;
        redirect_print(&lua, thread, &setup.log).map_err(broken)?;
        provide_modules(&lua, &setup.script).map_err(broken)?;
        lua.load(setup.script.text())
            .set_name(setup.script.chunk_name())
            .exec()
            .map_err(broken)?;
        let mut declared = declared_options(&lua).map_err(broken)?;
        declared.extend(options::general());
        let values = options::resolve(&setup.script, &declared, &setup.given)?;
        let rand_settings = options::rand_settings(&values)?;
        set_options(&lua, &values).map_err(broken)?;
        context.with(|context| {
            context.rand = seeded(setup, thread, rand_settings, context.unique_source());
        });
        Ok(State {
            thread,
            guarded,
            declared,
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
        let commands = sysbench(&self.lua)
            .and_then(|sysbench| sysbench.get::<Table>("cmdline"))
            .and_then(|cmdline| cmdline.get::<Table>("commands"))
            .ok()?;
        if let Ok(entry) = commands.get::<Table>(name) {
            let function = entry.get::<Function>(1).ok()?;
            let parallel = matches!(entry.get::<Value>(2), Ok(Value::Boolean(true)));
            return Some(Command { function, parallel });
        }
        Some(Command {
            function: self.global(name)?,
            parallel: false,
        })
    }

    pub(crate) fn call_command(&mut self, command: &Command) -> Called {
        self.call(&command.function)
    }

    /// Calls a global function with the thread's number, if there is one.
    pub(crate) fn call_if_defined(&mut self, name: &str) -> Called {
        match self.global(name) {
            Some(function) => self.call(&function),
            None => Called::Done(None),
        }
    }

    fn call(&mut self, function: &Function) -> Called {
        let answer: mlua::Result<(Option<Table>, Value)> =
            self.guarded.call((function, self.thread));
        match answer {
            Ok((None, value)) => Called::Done(value.as_boolean()),
            Ok((Some(failure), _)) => self.describe(&failure),
            // The prelude catches what a script raises; this is out of memory and the like.
            Err(error) => Called::Failed(Box::new(WorkerError::plain(
                self.thread,
                lua_message(&error),
            ))),
        }
    }

    fn describe(&self, failure: &Table) -> Called {
        if failure.get::<bool>("stopped").unwrap_or(false) {
            return Called::Stopped;
        }
        let text = |key: &str| {
            let value = failure.get::<Option<mlua::LuaString>>(key).ok().flatten()?;
            Some(value.to_string_lossy()).filter(|text| !text.is_empty())
        };
        Called::Failed(Box::new(WorkerError {
            statement: text("query"),
            at: text("position"),
            errno: failure.get::<u16>("errno").ok().filter(|errno| *errno != 0),
            connecting: failure.get::<bool>("connecting").unwrap_or(false),
            ..WorkerError::plain(self.thread, text("message").unwrap_or_default())
        }))
    }

    /// Says good-bye to the server on every connection the script left open.
    pub(crate) fn disconnect_all(&mut self) {
        self.context.with(Context::disconnect_all);
    }
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

fn sysbench(lua: &Lua) -> mlua::Result<Table> {
    lua.globals().get("sysbench")
}

/// Runs the three parts of the prelude; returns its function that calls others safely.
fn load_prelude(lua: &Lua, context: *mut Context) -> mlua::Result<Function> {
    let functions = lua.create_table()?;
    for (name, c_type, address) in api::functions() {
        let entry = lua.create_table()?;
        entry.set("type", c_type)?;
        entry.set("address", LightUserData(address))?;
        functions.set(name, entry)?;
    }
    let bind = "
        local structures, functions, context = ...
        local ffi = require('ffi')
        ffi.cdef(structures)
        local api = {}
        for name, entry in pairs(functions) do
          api[name] = ffi.cast(entry.type, entry.address)
        end
        return api, ffi.cast('void *', context)";
    let context = LightUserData(context.cast());
    let (api, context): (Value, Value) =
        lua.load(bind)
            .set_name("=prelude/bind.lua")
            .call((api::STRUCTURES, functions, context))?;
    let part = |name: &str, text: &'static str, raise: Option<Function>| {
        let chunk = lua.load(text).set_name(format!("=prelude/{name}"));
        chunk.call::<Option<Table>>((api.clone(), context.clone(), raise))
    };
    let exports = part("sysbench.lua", include_str!("lua/sysbench.lua"), None)?
        .ok_or_else(|| mlua::Error::runtime("the prelude returned nothing"))?;
    part("rand.lua", include_str!("lua/rand.lua"), None)?;
    part(
        "sql.lua",
        include_str!("lua/sql.lua"),
        exports.get("raise")?,
    )?;
    exports.get("guarded")
}

/// What a script can ask about the run before its options are known.
fn describe_run(lua: &Lua, setup: &Setup, thread: u32, driver: &str) -> mlua::Result<()> {
    let sysbench = sysbench(lua)?;
    sysbench.set("tid", thread)?;
    let cmdline: Table = sysbench.get("cmdline")?;
    cmdline.set("command", setup.command.as_str())?;
    cmdline.set("script_path", setup.script.name())?;
    let opt: Table = sysbench.get("opt")?;
    opt.set("threads", setup.threads)?;
    opt.set("rand_seed", setup.seed as f64)?;
    opt.set("db_driver", driver)?;
    opt.set("db_ps_mode", "auto")
}

/// Standard output carries results; what a script prints goes where the caller says.
fn redirect_print(lua: &Lua, thread: u32, log: &LogSink) -> mlua::Result<()> {
    let log = log.clone();
    let print = lua.create_function(move |_, values: Variadic<Value>| {
        let texts: Result<Vec<String>, mlua::Error> =
            values.iter().map(|value| value.to_string()).collect();
        log(thread, &texts?.join("\t"));
        Ok(())
    })?;
    lua.globals().set("print", print)
}

/// Shipped modules come first for a shipped workload and last for a file of the user, whose own
/// modules beside it may have the same names.
fn provide_modules(lua: &Lua, script: &Script) -> mlua::Result<()> {
    let package: Table = lua.globals().get("package")?;
    let loader = lua.create_function(|lua, name: String| match script::module_text(&name) {
        Some(text) => {
            let chunk = lua.load(text).set_name(script::chunk_name_of_module(&name));
            Ok(Value::Function(chunk.into_function()?))
        }
        None => {
            let text = format!("\n\tno module '{name}' shipped with waggle");
            Ok(Value::String(lua.create_string(text)?))
        }
    })?;
    let loaders: Table = package.get("loaders")?;
    match script.directory() {
        Some(directory) => {
            let directory = match directory.to_string_lossy() {
                empty if empty.is_empty() => "./".to_owned(),
                path => format!("{path}/"),
            };
            let old: String = package.get("path")?;
            package.set(
                "path",
                format!("{directory}?.lua;{directory}?/init.lua;{old}"),
            )?;
            loaders.push(loader)
        }
        None => {
            // Position 1 is package.preload, which stays first.
            loaders.raw_insert(2, loader)
        }
    }
}

fn declared_options(lua: &Lua) -> mlua::Result<Vec<DeclaredOption>> {
    let cmdline: Table = sysbench(lua)?.get("cmdline")?;
    let Some(options) = cmdline.get::<Option<Table>>("options")? else {
        return Ok(Vec::new());
    };
    let mut declared = Vec::new();
    for pair in options.pairs::<String, Table>() {
        let (name, entry) = pair?;
        let default = match entry.get::<Value>(2)? {
            Value::Boolean(value) => OptionValue::Bool(value),
            Value::Integer(value) => OptionValue::Number(value as f64),
            Value::Number(value) => OptionValue::Number(value),
            Value::Table(list) => {
                OptionValue::List(list.sequence_values().collect::<mlua::Result<_>>()?)
            }
            Value::String(value) => OptionValue::Text(value.to_string_lossy()),
            _ => OptionValue::Text(String::new()),
        };
        declared.push(DeclaredOption {
            name: canonical_name(&name),
            description: entry.get::<Option<String>>(1)?.unwrap_or_default(),
            default,
        });
    }
    declared.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(declared)
}

fn set_options(lua: &Lua, values: &BTreeMap<String, OptionValue>) -> mlua::Result<()> {
    let opt: Table = sysbench(lua)?.get("opt")?;
    for (name, value) in values {
        let name = name.as_str();
        match value {
            OptionValue::Bool(value) => opt.set(name, *value)?,
            OptionValue::Number(value) => opt.set(name, *value)?,
            OptionValue::Text(value) => opt.set(name, value.as_str())?,
            OptionValue::List(values) => {
                opt.set(
                    name,
                    lua.create_sequence_from(values.iter().map(String::as_str))?,
                )?;
            }
        }
    }
    Ok(())
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
