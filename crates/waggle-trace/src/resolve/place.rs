//! From a place as a stage file names it to places of probes, and what an argument is there.
//!
//! Neighbours: `waggle_symbols` finds functions, boundaries and static probes; `lower` makes steps
//! of expressions.
//!
//! Invariant: a place comes from decoding the binary that runs, with its bytes.

use waggle_probes::point::{Attach, Place as Spot, PointSpec, Register, Step, Test, Value};
use waggle_symbols::{Function, Site, boundary, usdt};

use super::known::Known;
use super::lower::{self, Names};
use super::tracepoint::Fields;
use super::{Reads, Target, comparison};
use crate::stagefile::{Condition, Expression, Place};

/// A place that was found, and what can be read there.
#[derive(Debug, Clone)]
pub(super) enum Found {
    /// A function's entry; its first argument may have to be an address of the binary.
    Entry(Function, Option<u64>),
    /// A function's return.
    Return(Function),
    /// An instruction.
    At(Site),
    /// A static probe.
    Static(usdt::Probe, Site),
    /// A word of the process.
    Watch(u64, u8),
    /// A tracepoint.
    Tracepoint(String, String, Fields),
}

impl Found {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Entry(function, _) => plain(&function.name),
            Self::Return(function) => format!("return of {}", plain(&function.name)),
            Self::At(site) => format!("{}+{:#x}", plain(&site.function), site.function_offset),
            Self::Static(probe, _) => format!("{}:{}", probe.provider, probe.name),
            Self::Watch(address, _) => format!("stores to {address:#x}"),
            Self::Tracepoint(category, name, _) => format!("{category}:{name}"),
        }
    }
}

/// A function's name as people write it, without its arguments.
fn plain(name: &str) -> String {
    let demangled = waggle_symbols::function::demangled(name);
    demangled.map_or_else(
        || name.to_owned(),
        |d| waggle_symbols::function::without_arguments(&d).to_owned(),
    )
}

/// Finds places in one process.
pub(super) struct Resolver<'a> {
    target: &'a Target,
}

impl<'a> Resolver<'a> {
    pub(super) fn new(target: &'a Target) -> Self {
        Self { target }
    }

    /// What an expression can say that belongs to no place.
    pub(super) fn nowhere(&self) -> Here<'_> {
        Here {
            target: self.target,
            kind: Kind::Nowhere,
        }
    }

    /// Every place that `place` stands for; at least one.
    pub(super) fn places(&self, place: &Place) -> Result<Vec<Found>, String> {
        let program = self.target.process().program();
        Ok(match place {
            Place::Function { name, is_return } => {
                let function = program.function(name).map_err(|e| e.to_string())?;
                vec![entry_or_return(function, *is_return)]
            }
            Place::Start { address, is_return } => {
                let function = program.starting_at(*address).map_err(|e| e.to_string())?;
                vec![entry_or_return(function, *is_return)]
            }
            Place::Offset { offset, bytes } => {
                let site = boundary::at_offset(program, *offset, bytes);
                vec![Found::At(site.map_err(|error| error.to_string())?)]
            }
            Place::Static { provider, name } => self.static_places(provider, name)?,
            Place::Watch(expression) => {
                let (expression, bytes) = match expression {
                    Expression::Low { bytes, of, .. } => (&**of, *bytes),
                    other => (other, 8),
                };
                let address = lower::lower(expression, &self.nowhere())?;
                let address = self.target.process().value(&address)?;
                vec![Found::Watch(address, bytes)]
            }
            Place::Tracepoint { category, name } => {
                let fields = Fields::read(category, name)?;
                vec![Found::Tracepoint(category.clone(), name.clone(), fields)]
            }
            Place::Known(name) => match self.target.redo().get(name)? {
                Known::Entry(function) => vec![Found::Entry(function, None)],
                Known::EntryWith(function, first) => vec![Found::Entry(function, Some(first))],
                Known::Return(function) => vec![Found::Return(function)],
                Known::Sites(sites) => sites.into_iter().map(Found::At).collect(),
                _ => return Err(format!("`{name}` is a number, no place")),
            },
        })
    }

    fn static_places(&self, provider: &str, name: &str) -> Result<Vec<Found>, String> {
        let all = self.target.probes().iter();
        let mut found = Vec::new();
        let mut refused = String::new();
        for probe in all.filter(|p| p.provider == provider && p.name == name) {
            match probe.site(self.target.process().program()) {
                Ok(site) if is_long_nop(&site.bytes) => {
                    "a five-byte nop stands there, which some kernels replace by a call that \
                     overwrites the function's stack"
                        .clone_into(&mut refused);
                }
                Ok(site) => found.push(Found::Static(probe.clone(), site)),
                Err(error) => refused = error.to_string(),
            }
        }
        match (found.is_empty(), refused.is_empty()) {
            (false, _) => Ok(found),
            (true, false) => Err(refused),
            (true, true) => Err(format!("the binary has no static probe {provider}:{name}")),
        }
    }

    /// A test of this condition.
    pub(super) fn condition(&self, condition: &Condition, here: &Here<'_>) -> Result<Test, String> {
        let (with, in_image) = match &condition.right {
            Expression::Number(number) => (*number, false),
            Expression::Symbol(name) => (here.symbol(name)?, true),
            Expression::Known(name) => match here.known(name)? {
                Known::Address(address) => (address, true),
                Known::Offset(offset) => (offset.cast_unsigned(), false),
                _ => return Err(format!("`${name}` is a place, no number")),
            },
            _ => return Err("it is compared with neither a number nor an address".into()),
        };
        Ok(Test {
            value: lower::lower(&condition.left, here)?,
            comparison: comparison(condition.comparison),
            with,
            in_image,
        })
    }

    /// What the kernel half needs for this place.
    pub(super) fn spec(
        &self,
        point: u16,
        found: &Found,
        read: &Reads<'_>,
    ) -> Result<PointSpec, String> {
        let (attach, kind) = self.attach(found, read)?;
        let here = Here {
            target: self.target,
            kind,
        };
        let tests = read.tests.iter().map(|test| self.condition(test, &here));
        let mut tests = tests.collect::<Result<Vec<_>, _>>()?;
        if let Found::Entry(_, Some(first)) = found {
            tests.push(Test {
                value: here.argument(1)?,
                comparison: waggle_probes::point::Comparison::Equal,
                with: *first,
                in_image: true,
            });
        }
        if tests.len() > waggle_probes::point::spec::TESTS_MAX {
            return Err("it has too many conditions".into());
        }
        Ok(PointSpec {
            point,
            attach,
            value: lower::lower(read.value, &here)?,
            second: lower::lower(read.second, &here)?,
            tests,
            stack: read.stack,
            follow: read.follow,
        })
    }

    /// How a probe is attached there, and what can be read.
    fn attach<'f>(&self, found: &'f Found, read: &Reads<'_>) -> Result<(Attach, Kind<'f>), String> {
        Ok(match found {
            Found::Entry(function, first) => {
                let mut wanted = arguments(read);
                if first.is_some() && !wanted.contains(&1) {
                    wanted.push(1);
                }
                let indices: Vec<u8> = wanted.iter().map(|number| number - 1).collect();
                let (site, registers) =
                    Site::find_holding(function, &indices).map_err(|e| e.to_string())?;
                let top = site.is_before_stack_moves(function);
                let held = wanted.into_iter().zip(registers).collect();
                (self.at(&site, top, None), Kind::Entry(held))
            }
            Found::Return(function) => {
                let site = Site::find_holding(function, &[]).map(|(site, _)| site).ok();
                let site = site.filter(|site| site.is_before_stack_moves(function));
                let site = site.or_else(|| boundary::first(function));
                let site = site.ok_or_else(|| format!("{} cannot be decoded", function.name))?;
                (Attach::Return(self.spot(&site, true)), Kind::Return)
            }
            Found::At(site) => (self.at(site, false, None), Kind::Instruction),
            Found::Static(probe, site) => {
                let semaphore = probe.semaphore_offset(self.target.process().program());
                if probe.semaphore != 0 && semaphore.is_none() {
                    return Err("its counter is not in the file".into());
                }
                (self.at(site, false, semaphore), Kind::Static(probe))
            }
            Found::Watch(address, bytes) => (
                Attach::Watch {
                    address: *address,
                    bytes: *bytes,
                },
                Kind::Watch(*address, *bytes),
            ),
            Found::Tracepoint(category, name, fields) => (
                Attach::Tracepoint {
                    category: category.clone(),
                    name: name.clone(),
                },
                Kind::Tracepoint(fields),
            ),
        })
    }

    fn at(&self, site: &Site, return_on_top: bool, semaphore: Option<u64>) -> Attach {
        Attach::At {
            place: self.spot(site, return_on_top),
            semaphore,
        }
    }

    fn spot(&self, site: &Site, return_on_top: bool) -> Spot {
        Spot {
            binary: self.target.process().binary().clone(),
            function: plain(&site.function),
            function_offset: site.function_offset,
            file_offset: site.file_offset,
            bytes: site.bytes.clone(),
            trap: site.trap,
            return_on_top,
        }
    }
}

fn entry_or_return(function: Function, is_return: bool) -> Found {
    if is_return {
        Found::Return(function)
    } else {
        Found::Entry(function, None)
    }
}

fn is_long_nop(bytes: &[u8]) -> bool {
    bytes == [0x0f, 0x1f, 0x44, 0, 0]
}

/// The arguments that are read, each once.
fn arguments(read: &Reads<'_>) -> Vec<u8> {
    fn collect(expression: &Expression, into: &mut Vec<u8>) {
        match expression {
            Expression::Argument(number) if !into.contains(number) => into.push(*number),
            Expression::Add(left, right) | Expression::Subtract(left, right) => {
                collect(left, into);
                collect(right, into);
            }
            Expression::Load { at, .. } => collect(at, into),
            Expression::Low { of, .. } => collect(of, into),
            _ => {}
        }
    }
    let mut found = Vec::new();
    collect(read.value, &mut found);
    collect(read.second, &mut found);
    for test in read.tests {
        collect(&test.left, &mut found);
    }
    found.retain(|number| (1..=6).contains(number));
    found
}

enum Kind<'a> {
    Nowhere,
    /// Arguments and the registers that hold them.
    Entry(Vec<(u8, Register)>),
    Return,
    Instruction,
    Static(&'a usdt::Probe),
    Watch(u64, u8),
    Tracepoint(&'a Fields),
}

/// What names stand for at one place.
pub(super) struct Here<'a> {
    target: &'a Target,
    kind: Kind<'a>,
}

impl Names for Here<'_> {
    fn argument(&self, number: u8) -> Result<Value, String> {
        match &self.kind {
            Kind::Entry(held) => {
                let found = held.iter().find(|(argument, _)| *argument == number);
                let found = found.ok_or_else(|| format!("arg{number} is not in a register"))?;
                Ok(lower::register(found.1))
            }
            Kind::Static(probe) => {
                let argument = probe.arguments.get(usize::from(number) - 1);
                let argument = argument.ok_or_else(|| {
                    format!("it has {} arguments, no arg{number}", probe.arguments.len())
                })?;
                lower::static_argument(argument)
            }
            _ => Err(format!(
                "arg{number} is known at a function's entry and at a static probe only"
            )),
        }
    }

    fn returned(&self) -> Result<Value, String> {
        match self.kind {
            Kind::Return => Ok(lower::register(Register(0))),
            _ => Err("`ret` is known at a function's return only".into()),
        }
    }

    fn watched(&self) -> Result<Value, String> {
        match self.kind {
            Kind::Watch(address, bytes) => Ok(Value {
                steps: vec![Step {
                    add: address.cast_signed(),
                    load: bytes,
                    signed: false,
                }],
                ..Value::default()
            }),
            _ => Err("`new` is known at a watched word only".into()),
        }
    }

    fn field(&self, name: &str) -> Result<Value, String> {
        match self.kind {
            Kind::Tracepoint(fields) => fields.get(name),
            _ => Err("a field is known at a tracepoint only".into()),
        }
    }

    fn register(&self, number: u8) -> Result<Value, String> {
        match self.kind {
            Kind::Instruction | Kind::Static(_) => Ok(lower::register(Register(number))),
            _ => Err("a register is known at off:, known: and usdt: only".into()),
        }
    }

    fn symbol(&self, name: &str) -> Result<u64, String> {
        let found = self.target.process().program().address(name);
        found.ok_or_else(|| format!("the binary does not export {name}"))
    }

    fn known(&self, name: &str) -> Result<Known, String> {
        self.target.redo().get(name)
    }
}
