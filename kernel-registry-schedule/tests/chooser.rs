//! Who takes the next step in a run.

mod toy;

use std::collections::BTreeSet;

use kernel_registry_schedule::{Chance, Chooser, Departure, FAIR, Kind, Misfit, Party, Plan};
use toy::{A, B, C, Program, nothing, op};

fn departure(before: Party, step: u64, run: Party) -> Departure {
    Departure { before, step, run }
}

fn plan(departures: &[Departure]) -> Plan {
    Plan { departures: departures.to_vec(), ..Plan::default() }
}

fn by_chance(seed: u64, depth: u32, length: u64) -> Plan {
    Plan { chance: Some(Chance { seed, depth, length }), ..Plan::default() }
}

/// Chooses among the same options again and again.
fn chosen(plan: Plan, options: &[Party], times: usize) -> Vec<Party> {
    let mut chooser = Chooser::new(plan);
    (0..times).map(|_| chooser.choose(options).unwrap().party).collect()
}

#[test]
fn a_party_continues_and_then_the_next_one_goes() {
    let mut chooser = Chooser::new(Plan::default());
    let mut choose = |options: &[Party]| chooser.choose(options).unwrap().party;
    assert_eq!(choose(&[C, B]), B);
    assert_eq!(choose(&[C, B, A]), B);
    assert_eq!(choose(&[C, A]), C);
    assert_eq!(choose(&[B, A]), A);
}

#[test]
fn choices_tell_the_options_only_if_there_are_several() {
    let mut chooser = Chooser::new(Plan::default());
    assert_eq!(chooser.choose(&[B]).unwrap().options, []);
    let choice = chooser.choose(&[C, B, A]).unwrap();
    assert_eq!((choice.options, choice.step), (vec![A, B, C], 1));
}

#[test]
fn departures_before_the_same_step_are_made_in_turn() {
    let departures = [departure(A, 1, C), departure(A, 1, B)];
    let mut chooser = Chooser::new(Plan { strict: true, ..plan(&departures) });
    let mut choose = |options: &[Party]| chooser.choose(options).unwrap().party;
    let order = [choose(&[A, B, C]), choose(&[A, B, C]), choose(&[A, B]), choose(&[A, B])];
    // After C has ended it's A's turn again, before the same step.
    assert_eq!(order, [A, C, B, B]);
    assert_eq!(choose(&[A]), A);
}

#[test]
fn a_strict_plan_must_be_possible() {
    let impossible = departure(A, 0, C);
    let strict = Plan { strict: true, ..plan(&[impossible]) };
    let error = Chooser::new(strict).choose(&[B, A]).unwrap_err();
    assert_eq!(error, Misfit::NotAnOption { departure: impossible, options: vec![A, B] });
    assert!(error.to_string().contains("before host 0 step 0 run grid 0 block 0 warp 0 lane 16"), "{error}");
}

#[test]
fn a_lenient_plan_ignores_the_impossible() {
    let departures = [departure(A, 0, C), departure(A, 0, B), departure(B, 5, A)];
    let mut chooser = Chooser::new(plan(&departures));
    assert_eq!(chooser.choose(&[A, B]).unwrap().party, B);
}

#[test]
fn little_room_is_never_usual_if_anything_else_can_go() {
    let (stream, room) = (Party::Stream(2), Party::Room(2));
    let block = Party::Block { grid: 0, block: 1 };
    assert_eq!(chosen(Plan::default(), &[room, stream], 3), [stream; 3]);
    assert_eq!(chosen(Plan::default(), &[room, block], 3), [block; 3]);
    assert_eq!(chosen(Plan::default(), &[room], 1), [room]);
    assert_eq!(chosen(plan(&[departure(stream, 0, room)]), &[room, stream], 2), [room, stream]);
    // Nor is a party tired if only little room could go.
    assert_eq!(chosen(Plan::default(), &[room, stream], FAIR as usize + 1), [stream; FAIR as usize + 1]);
}

#[test]
fn a_party_lets_others_go_after_many_steps() {
    let fair = FAIR as usize;
    let order = chosen(Plan::default(), &[A, B, C], 3 * fair + 1);
    let runs: Vec<(Party, usize)> =
        order.chunk_by(|left, right| left == right).map(|run| (run[0], run.len())).collect();
    assert_eq!(runs, [(A, fair), (B, fair), (C, fair), (A, 1)]);
}

#[test]
fn steps_without_alternatives_make_nobody_tired() {
    let mut chooser = Chooser::new(Plan::default());
    for _ in 0..2 * FAIR {
        chooser.choose(&[A]).unwrap();
    }
    assert_eq!(chooser.choose(&[A, B]).unwrap().party, A);
}

#[test]
fn a_tired_party_stays_so_while_it_is_alone() {
    let mut chooser = Chooser::new(Plan::default());
    for _ in 0..FAIR {
        chooser.choose(&[A, B]).unwrap();
    }
    assert_eq!(chooser.choose(&[A]).unwrap().party, A);
    assert_eq!(chooser.choose(&[A, B]).unwrap().party, B);
}

#[test]
fn little_room_makes_nobody_tired() {
    let (stream, room, other) = (Party::Stream(2), Party::Room(2), Party::Stream(3));
    let mut chooser = Chooser::new(Plan::default());
    for _ in 0..FAIR {
        chooser.choose(&[stream, room]).unwrap();
    }
    assert_eq!(chooser.choose(&[stream, other]).unwrap().party, stream);
}

fn spinner() -> Program {
    let waits = op(|_| {}).when(|m| m[0] == 1).spinning();
    Program::new([(A, vec![waits]), (B, vec![nothing(), op(|m| m[0] = 1)])])
}

#[test]
fn a_spinner_ends_under_every_kind_of_plan() {
    assert_eq!(spinner().run(&Plan::default()).kind(), Kind::Passed);
    for seed in 0..50 {
        let record = spinner().run(&by_chance(seed, 3, 100));
        assert_eq!(record.kind(), Kind::Passed, "seed {seed}");
    }
}

#[test]
fn spinners_do_not_outrank_a_party_of_lowered_priority() {
    let waits = || op(|_| {}).when(|m| m[0] == 1).spinning();
    let last = [vec![nothing(); 8], vec![op(|m| m[0] = 1)]].concat();
    let program = Program::new([(A, vec![waits()]), (B, last), (C, vec![waits()])]);
    for seed in 0..40 {
        assert_eq!(program.run(&by_chance(seed, 3, 8)).kind(), Kind::Passed, "seed {seed}");
    }
}

#[test]
fn a_run_by_chance_can_be_rewritten_as_departures() {
    let program = toy::deadlock(20, 3);
    for program in [program, spinner()] {
        let mut departed = 0;
        for seed in 0..50 {
            let record = program.run(&by_chance(seed, 4, 120));
            let again = program.run(&Plan { strict: true, ..plan(&record.departures()) });
            assert_eq!(record, again, "seed {seed}");
            departed += record.departures().len();
        }
        assert!(departed > 20, "{departed}");
    }
}

#[test]
fn chance_tries_every_order_of_parties() {
    let program = Program::new([A, B, C].map(|party| (party, vec![nothing()])));
    let orders: BTreeSet<Vec<Party>> = (0..200)
        .map(|seed| program.run(&by_chance(seed, 1, 3)).steps.iter().map(|step| step.party).collect())
        .collect();
    assert_eq!(orders.len(), 6);
}

#[test]
fn changes_of_priorities_allow_as_many_switches() {
    let program = Program::new([A, B].map(|party| (party, vec![nothing(); 2])));
    let orders = |depth| {
        let order =
            |seed| program.run(&by_chance(seed, depth, 3)).steps.iter().map(|step| step.party).collect();
        (0..300).map(order).collect::<BTreeSet<Vec<Party>>>()
    };
    assert_eq!(orders(1), BTreeSet::from([vec![A, A, B, B], vec![B, B, A, A]]));
    assert_eq!(orders(2).len(), 4);
    assert_eq!(orders(3), program.orders());
}

#[test]
fn the_same_seed_is_the_same_schedule() {
    let program = toy::deadlock(20, 3);
    assert_eq!(program.text(&by_chance(7, 3, 100)), program.text(&by_chance(7, 3, 100)));
    assert_ne!(program.text(&by_chance(7, 3, 100)), program.text(&by_chance(8, 3, 100)));
}

#[test]
fn chance_finds_failures_as_often_as_promised() {
    // Two parties and three choices before only one of them is left; the failure needs two constraints.
    let program = toy::lost_update();
    let seeds = 3_000;
    let found = (0..seeds).filter(|seed| program.run(&by_chance(*seed, 2, 3)).kind() == Kind::Failed).count();
    assert!(found as u64 >= seeds / 6, "{found}");
    let found = (0..seeds).filter(|seed| program.run(&by_chance(*seed, 1, 3)).kind() == Kind::Failed).count();
    assert_eq!(found, 0, "without changes of priorities, each runs to its end");
}

#[test]
#[should_panic(expected = "someone can take a step")]
fn there_must_be_an_option() {
    let _ = Chooser::new(Plan::default()).choose(&[]);
}
