//! Finds the structs on which the files of a folder agree. They are defined once, in a module of their own.

use std::collections::{BTreeMap, BTreeSet};

use super::fields::Known;
use super::input::Unit;
use super::kept::Kept;
use super::layout::Layout;
use super::module::{Module, taken};
use super::names;
use super::structs::{Shared, Structs};

/// Collects the structs of these files. If files differ about a struct, it is not shared: each file defines its own.
pub(super) fn structs_of(units: &[Unit]) -> Shared {
    let (none_shared, kept) = (Shared::default(), Kept::default());
    let (mut fields, mut differing) = (Known::new(), BTreeSet::new());
    for (name, there) in units.iter().flat_map(|unit| &unit.source.structs) {
        if *fields.entry(name.clone()).or_insert_with(|| there.clone()) != *there {
            differing.insert(name.clone());
        }
    }
    fields.retain(|name, _| !differing.contains(name));
    let mut layouts: BTreeMap<String, Option<Layout>> = BTreeMap::new();
    for unit in units {
        for known in
            Module::build(unit, &none_shared, &kept).structs.list().filter(|known| !known.cuda.is_empty())
        {
            let layout = layouts.entry(known.cuda.to_owned()).or_insert(known.layout);
            match (*layout, known.layout) {
                (Some(one), Some(other)) => match one.or(other) {
                    Some(both) => *layout = Some(both),
                    None => drop(differing.insert(known.cuda.to_owned())),
                },
                (one, other) => *layout = one.or(other),
            }
        }
    }
    layouts.retain(|cuda, _| !differing.contains(cuda) && !differing.contains(names::unqualified(cuda)));
    let mut shared = Shared { structs: BTreeMap::new(), fields };
    let mut structs = structs(&shared, &none_shared, units);
    let name = |(cuda, layout): (String, Option<Layout>)| {
        let name = structs.name(&cuda, layout);
        (cuda, (layout, name))
    };
    let named = layouts.into_iter().map(name).collect();
    shared.structs = named;
    shared
}

/// Returns the shared structs, to be defined in a module of their own.
pub(super) fn definitions<'a>(shared: &'a Shared, none_shared: &'a Shared, units: &[Unit]) -> Structs<'a> {
    let mut structs = structs(shared, none_shared, units);
    for (cuda, (layout, _)) in &shared.structs {
        structs.name(cuda, *layout);
    }
    structs
}

fn structs<'a>(shared: &'a Shared, none_shared: &'a Shared, units: &[Unit]) -> Structs<'a> {
    Structs::new(units.iter().flat_map(|unit| taken(&unit.image)), &shared.fields, none_shared)
}
