//! The Lua side of this crate, loaded into a state before a script: what it finds there.
//!
//! The parts are in `lua/`, in the order of `PARTS`; each gets the functions of `api`, the context
//! and one table through which the parts know each other. Invariant: nothing here runs the
//! script or needs its options.

use std::collections::BTreeMap;

use mlua::{Function, LightUserData, Lua, Table, Value, Variadic};

use crate::context::Context;
use crate::options::OptionValue;
use crate::script::{self, Script};
use crate::spec::{Dialect, LogSink};
use crate::state::Setup;
use crate::{api, options};

macro_rules! parts {
    ($($name:literal),*) => {
        [$(($name, include_str!(concat!("lua/", $name)))),*]
    };
}

/// Every script's, in this order.
const PARTS: [(&str, &str); 9] = parts![
    "sysbench.lua",
    "cmdline.lua",
    "rand.lua",
    "result.lua",
    "sql.lua",
    "histogram.lua",
    "report.lua",
    "symbols.lua",
    "waggle.lua"
];

const TYPES: &str = include_str!("lua/types.lua");
const LEGACY: &str = include_str!("lua/legacy.lua");

/// What the parts export for the engine.
pub(crate) struct Prelude {
    table: Table,
    /// Calls a function and describes its failure.
    pub(crate) guarded: Function,
}

impl Prelude {
    pub(crate) fn load(
        lua: &Lua,
        setup: &Setup,
        context: *mut Context,
        driver: &str,
    ) -> mlua::Result<Prelude> {
        let table = lua.create_table()?;
        let (version, version_string) = match setup.dialect {
            Dialect::V1_0 => ("1.0.20", "sysbench 1.0.20 (waggle)"),
            Dialect::V1_1 => ("1.1.0", "sysbench 1.1.0 (waggle)"),
        };
        table.set("version", version)?;
        table.set("version_string", version_string)?;
        table.set("driver_name", driver)?;
        table.set("script_title", setup.script.title())?;
        let types = lua.load(TYPES).set_name("=prelude/types.lua");
        let (own, real): (Table, Value) = types.call(())?;
        table.set("own_symbols", own)?;
        table.set("real_symbols", real)?;
        let (api, context) = bind(lua, context)?;
        let part = |name: &str, text: &'static str| {
            let chunk = lua.load(text).set_name(format!("=prelude/{name}"));
            chunk.call::<()>((api.clone(), context.clone(), table.clone()))
        };
        for (name, text) in PARTS {
            part(name, text)?;
        }
        if setup.dialect == Dialect::V1_0 {
            part("legacy.lua", LEGACY)?;
        }
        Ok(Prelude {
            guarded: table.get("guarded")?,
            table,
        })
    }

    /// A function that the parts keep for the engine.
    pub(crate) fn function(&self, name: &str) -> mlua::Result<Function> {
        self.table.get(name)
    }
}

/// The functions of `api` as typed pointers, and the context they take.
fn bind(lua: &Lua, context: *mut Context) -> mlua::Result<(Value, Value)> {
    let functions = lua.create_table()?;
    for (name, c_type, address) in api::functions() {
        let entry = lua.create_table()?;
        entry.set("type", c_type)?;
        entry.set("address", LightUserData(address))?;
        functions.set(name, entry)?;
    }
    let text = "
        local structures, functions, context = ...
        local ffi = require('ffi')
        ffi.cdef(structures)
        local api = {}
        for name, entry in pairs(functions) do
          api[name] = ffi.cast(entry.type, entry.address)
        end
        return api, ffi.cast('void *', context)";
    let context = LightUserData(context.cast());
    let chunk = lua.load(text).set_name("=prelude/bind.lua");
    chunk.call((api::STRUCTURES, functions, context))
}

pub(crate) fn sysbench(lua: &Lua) -> mlua::Result<Table> {
    lua.globals().get("sysbench")
}

/// What a script can ask about the run before its own options are known.
pub(crate) fn describe_run(
    lua: &Lua,
    setup: &Setup,
    thread: u32,
    driver: &str,
) -> mlua::Result<()> {
    let sysbench = sysbench(lua)?;
    sysbench.set("tid", thread)?;
    let cmdline: Table = sysbench.get("cmdline")?;
    if !setup.command.is_empty() {
        cmdline.set("command", setup.command.as_str())?;
    }
    cmdline.set("script_path", setup.script.name())?;
    let argv: Table = cmdline.get("argv")?;
    for (index, argument) in setup.argv.iter().enumerate() {
        argv.set(index, argument.as_str())?;
    }
    let opt: Table = sysbench.get("opt")?;
    opt.set("threads", setup.threads)?;
    opt.set("rand_seed", setup.seed as f64)?;
    opt.set("db_driver", driver)?;
    opt.set("db_ps_mode", setup.ps_mode)?;
    set_values(lua, &opt, &setup.general)?;
    if let Some(values) = setup.resolved.get() {
        set_values(lua, &opt, values)?;
    }
    if setup.dialect == Dialect::V1_0 {
        let globals = lua.globals();
        globals.set("thread_id", thread)?;
        globals.set("test", setup.script.name())?;
        globals.set("db_driver", driver)?;
        globals.set("num_threads", setup.threads)?;
    }
    Ok(())
}

/// Options as a script sees them, in `sysbench.opt` or, for legacy scripts, among its globals.
pub(crate) fn set_values(
    lua: &Lua,
    table: &Table,
    values: &BTreeMap<String, OptionValue>,
) -> mlua::Result<()> {
    for (name, value) in values {
        let name = options::canonical_name(name);
        match value {
            OptionValue::Bool(value) => table.set(name, *value)?,
            OptionValue::Number(value) => table.set(name, *value)?,
            OptionValue::Text(value) => table.set(name, value.as_str())?,
            OptionValue::List(values) => {
                let values = values.iter().map(String::as_str);
                table.set(name, lua.create_sequence_from(values)?)?;
            }
        }
    }
    Ok(())
}

/// What a script prints goes where the caller says.
pub(crate) fn redirect_print(lua: &Lua, thread: u32, log: &LogSink) -> mlua::Result<()> {
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
/// modules beside it or installed with sysbench may have the same names.
pub(crate) fn provide_modules(lua: &Lua, script: &Script) -> mlua::Result<()> {
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
    package.set("path", script::package_path(script.directory()))?;
    match script.directory() {
        Some(_) => loaders.push(loader),
        // Position 1 is package.preload, which stays first.
        None => loaders.raw_insert(2, loader),
    }
}
