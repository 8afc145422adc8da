//! Compares the arithmetic with measurements on an H200.

use kernel_registry_cuda::fit::{Device, Launch, beside, residency};

const MEASURED: &str = include_str!("fit/measured.csv");

/// A measured pair of kernels, of which the first is resident.
struct Pair {
    run: &'static str,
    /// The run and the number of the pair, for messages.
    name: String,
    resident: Launch,
    other: Launch,
    /// Whether the second kernel ran alongside the first. `None` if it wasn't tried, because the first didn't
    /// have all blocks on the device at once.
    ran: Option<bool>,
}

impl Pair {
    fn of(line: &'static str) -> Self {
        let cells: Vec<&str> = line.split(',').collect();
        let [run, number, grid, stays @ .., ran] = &cells[..] else { panic!("{line}") };
        let launch = |grid: &str, cells: &[&str]| {
            let number = |cell: usize| cells[cell].parse().expect(line);
            Launch {
                grid: grid.parse().expect(line),
                threads: number(0),
                registers: number(1),
                static_shared: number(2),
                dynamic_shared: number(3),
                ..Launch::default()
            }
        };
        let carveout = stays[4].parse().ok();
        Pair {
            run,
            name: format!("{run}, {number}"),
            resident: Launch { carveout, ..launch(grid, &stays[..4]) },
            other: launch("1", &stays[5..]),
            ran: match *ran {
                "yes" => Some(true),
                "no" => Some(false),
                "-" => None,
                _ => panic!("{line}"),
            },
        }
    }

    fn fits(&self) -> bool {
        beside(hopper(), &self.resident, &self.other).expect(&self.name).fits()
    }
}

fn hopper() -> &'static Device {
    Device::of(90).unwrap()
}

fn pairs() -> impl Iterator<Item = Pair> {
    MEASURED.lines().filter(|line| !line.starts_with('#')).skip(1).map(Pair::of)
}

#[test]
fn a_grid_that_fits_was_on_the_device_as_a_whole() {
    for pair in pairs() {
        let fits = residency(hopper(), &pair.resident).unwrap().fits();
        assert_eq!(fits, pair.ran.is_some(), "{}", pair.name);
    }
}

#[test]
fn random_pairs_are_as_measured() {
    let mut tried = 0;
    for pair in pairs().filter(|pair| pair.run.starts_with("seed")) {
        let Some(ran) = pair.ran else { continue };
        assert_eq!(pair.fits(), ran, "{}", pair.name);
        tried += 1;
    }
    assert_eq!(tried, 230);
}

/// With a preference of 50 percent and blocks of 2 KiB, the device had a carve-out of 196 KiB instead of 132.
/// No known rule explains that. All other pairs match.
#[test]
fn carveouts_are_as_measured() {
    let mut unexplained = 0;
    for pair in pairs().filter(|pair| pair.run == "carve-outs") {
        let is_as_measured = Some(pair.fits()) == pair.ran;
        if (pair.resident.carveout, pair.resident.dynamic_shared) == (Some(50), 2 << 10) {
            assert!(is_as_measured || !pair.fits(), "{}", pair.name);
            unexplained += u32::from(!is_as_measured);
        } else {
            assert!(is_as_measured, "{}", pair.name);
        }
    }
    assert_eq!(unexplained, 8);
}
