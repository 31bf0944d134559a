//! From rows events to outcomes.
//!
//! Neighbours: the walkers of `waggle-wire` find the values, `batch` takes what they come to.
//! Invariants: a row that goes in is whole: one that the log holds only a part of is an error that
//! says which setting left it out; what cannot be read is an error that names the table.

use std::collections::HashMap;

use waggle_wire::binlog::mariadb;
use waggle_wire::binlog::rows::{Change, Image, RowsEvent};
use waggle_wire::binlog::table_map::TableMap;
use waggle_wire::binlog::value::ColumnValue;

use super::batch::Batch;
use super::shape::Shape;
use crate::error::{CopyError, Side};

/// Reads the rows of a transaction.
pub(super) struct Changes<'t> {
    pub(super) shapes: Vec<Shape<'t>>,
    places: HashMap<(Vec<u8>, Vec<u8>), usize>,
    /// Table maps by the log's number, with the bytes that they were read from.
    maps: HashMap<u64, Mapped>,
    scratch: Scratch,
    plain: Vec<u8>,
}

struct Mapped {
    body: Vec<u8>,
    map: TableMap,
    place: usize,
}

#[derive(Default)]
struct Scratch {
    key: Vec<u8>,
    key_before: Vec<u8>,
    row: Vec<u8>,
}

fn wire(error: waggle_wire::Error) -> CopyError {
    CopyError::on(Side::Source, "reading rows of the binary log")(error)
}

impl<'t> Changes<'t> {
    pub(super) fn new(shapes: Vec<Shape<'t>>) -> Changes<'t> {
        let name = |shape: &Shape<'_>| {
            let name = &shape.table.source;
            (
                name.schema.clone().into_bytes(),
                name.name.clone().into_bytes(),
            )
        };
        let places = shapes
            .iter()
            .enumerate()
            .map(|(i, s)| (name(s), i))
            .collect();
        Changes {
            shapes,
            places,
            maps: HashMap::new(),
            scratch: Scratch::default(),
            plain: Vec::new(),
        }
    }

    /// Takes a table map.
    pub(super) fn table(&mut self, body: &[u8]) -> Result<(), CopyError> {
        // Servers number tables anew when they restart, so there are not ever more of them.
        const MAPS_MAX: usize = 10_000;
        let (id, schema, name) = TableMap::name(body).map_err(wire)?;
        // The usual one: the same table as in the statement before.
        if self.maps.get(&id).is_some_and(|known| known.body == body) {
            return Ok(());
        }
        let place = self.places.get(&(schema.to_vec(), name.to_vec())).copied();
        let Some(place) = place else {
            return Err(CopyError::Progress(format!(
                "the spool holds rows of {}.{}, which is not copied; remove the spool's directory",
                String::from_utf8_lossy(schema),
                String::from_utf8_lossy(name)
            )));
        };
        let mut map = TableMap::parse(body).map_err(wire)?;
        self.shapes[place].inform(&mut map)?;
        if self.maps.len() >= MAPS_MAX {
            self.maps.clear();
        }
        let body = body.to_vec();
        self.maps.insert(id, Mapped { body, map, place });
        Ok(())
    }

    /// Takes rows.
    pub(super) fn rows(
        &mut self,
        kind: u8,
        body: &[u8],
        batch: &mut Batch,
    ) -> Result<(), CopyError> {
        let mut plain = std::mem::take(&mut self.plain);
        let outcome = match mariadb::unpack(kind, body, &mut plain).map_err(wire)? {
            Some(kind) => self.plain_rows(kind, &plain, batch),
            None => self.plain_rows(kind, body, batch),
        };
        plain.clear();
        plain.shrink_to(1 << 20);
        self.plain = plain;
        outcome
    }

    fn plain_rows(&mut self, kind: u8, body: &[u8], batch: &mut Batch) -> Result<(), CopyError> {
        let event = RowsEvent::parse(kind, body).map_err(wire)?;
        let Some(event) = event else {
            return Err(CopyError::Progress(format!(
                "the spool holds an event of kind {kind}"
            )));
        };
        let Some(Mapped { map, place, .. }) = self.maps.get(&event.table_id()) else {
            return Err(CopyError::Progress(
                "the spool holds rows of no table".to_owned(),
            ));
        };
        let shape = &self.shapes[*place];
        if shape.is_untouched {
            return Ok(());
        }
        if shape.key.is_empty() {
            return Err(CopyError::Data {
                table: shape.table.source.to_string(),
                what: "it has neither a primary key nor a unique one without NULL, so that a \
                       change of it cannot be applied; add one, or leave the table out"
                    .to_owned(),
            });
        }
        let mut rows = event.rows(map).map_err(wire)?;
        while let Some(change) = rows.next().map_err(wire)? {
            let added = add(&change, shape, *place, &mut self.scratch, batch);
            added.map_err(|error| refusal(shape, error))?;
            batch.changes += 1;
        }
        Ok(())
    }
}

/// Why a row could not be applied.
enum Unfit {
    Partial,
    Wire(waggle_wire::Error),
}

impl From<waggle_wire::Error> for Unfit {
    fn from(error: waggle_wire::Error) -> Unfit {
        Unfit::Wire(error)
    }
}

fn refusal(shape: &Shape<'_>, why: Unfit) -> CopyError {
    let what = match why {
        Unfit::Partial => "the binary log holds only a part of a row; set binlog_row_image = FULL \
                           at the source (also in sessions that set it themselves), and begin anew"
            .to_owned(),
        Unfit::Wire(error) => format!("a change in the binary log cannot be applied: {error}"),
    };
    CopyError::Data {
        table: shape.table.source.to_string(),
        what,
    }
}

fn add(
    change: &Change<'_>,
    shape: &Shape<'_>,
    place: usize,
    scratch: &mut Scratch,
    batch: &mut Batch,
) -> Result<(), Unfit> {
    if let Some(before) = &change.before {
        scratch.key_before.clear();
        put_key(before, shape, &mut scratch.key_before)?;
    }
    let Some(after) = &change.after else {
        batch.delete(place, &scratch.key_before);
        return Ok(());
    };
    scratch.key.clear();
    put_key(after, shape, &mut scratch.key)?;
    scratch.row.clear();
    put_row(after, change.before.as_ref(), shape, &mut scratch.row)?;
    if change.before.is_some() && scratch.key_before != scratch.key {
        batch.delete(place, &scratch.key_before);
    }
    batch.put(place, &scratch.key, &scratch.row);
    if scratch.row.capacity() > 4 << 20 {
        scratch.row = Vec::new();
    }
    Ok(())
}

fn put_key(image: &Image<'_>, shape: &Shape<'_>, out: &mut Vec<u8>) -> Result<(), Unfit> {
    for (place, column) in shape.key.iter().enumerate() {
        let value = value_of(image, *column)?.ok_or(Unfit::Partial)?;
        shape.put_key(place, &value, out)?;
    }
    Ok(())
}

fn value_of<'a>(image: &Image<'a>, column: usize) -> Result<Option<ColumnValue<'a>>, Unfit> {
    for found in image.values() {
        let (at, value) = found?;
        if at == column {
            return Ok(Some(value));
        }
        if at > column {
            break;
        }
    }
    Ok(None)
}

/// Appends a row as `(1, 'a')`.
fn put_row(
    image: &Image<'_>,
    before: Option<&Image<'_>>,
    shape: &Shape<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Unfit> {
    let columns = &shape.table.columns;
    let mut values = image.values();
    let mut next = values.next().transpose()?;
    let mut joint = b'(';
    for (column, described) in columns.iter().enumerate() {
        let found = next.filter(|(at, _)| *at == column);
        if found.is_some() {
            next = values.next().transpose()?;
        }
        if described.is_generated {
            continue;
        }
        let Some((_, value)) = found else {
            return Err(Unfit::Partial);
        };
        out.push(joint);
        joint = b',';
        if value.changes().is_none() {
            value.literal(out)?;
            continue;
        }
        let was = match before {
            Some(before) => value_of(before, column)?,
            None => None,
        };
        value.changed_literal(&was.ok_or(Unfit::Partial)?, out)?;
    }
    out.push(b')');
    Ok(())
}
