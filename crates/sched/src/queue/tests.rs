use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug, PartialEq)]
struct TestTask {
    class: Class,
    tenant: usize,
    number: usize,
    is_affine: bool,
}

impl Job for TestTask {
    fn class(&self) -> Class {
        self.class
    }
    fn tenant(&self) -> usize {
        self.tenant
    }
    fn is_affine(&self) -> bool {
        self.is_affine
    }
}

struct Table(Vec<u32>);

impl Weights for Table {
    fn weight(&self, tenant: usize) -> u32 {
        self.0[tenant]
    }
}

const SLICE_NS: u64 = 200_000;

fn work(class: Class, tenant: usize, number: usize) -> TestTask {
    TestTask {
        class,
        tenant,
        number,
        is_affine: false,
    }
}

/// A core in simulated time.
struct Core {
    queue: ReadyQueue<TestTask>,
    weights: Table,
    now: u64,
}

impl Core {
    fn new(weights: &[u32]) -> Core {
        Core {
            queue: ReadyQueue::new(SLICE_NS),
            weights: Table(weights.to_vec()),
            now: 0,
        }
    }

    fn push(&mut self, task: TestTask) {
        let since = self.now;
        let pushed = self.queue.push(Ready { task, since }, &self.weights);
        pushed.expect("the queue is open");
    }

    /// Runs the next task for `ns`.
    fn run(&mut self, ns: u64) -> Option<TestTask> {
        let task = self.queue.pick(self.now, || true)?;
        self.now += ns;
        self.queue.finish(self.now, |ns| ns, &self.weights);
        Some(task)
    }

    /// Runs the next task for as long as `ns` says and puts it back, until `end`.
    fn saturate(&mut self, end: u64, ns: impl Fn(&TestTask) -> u64) {
        while self.now < end {
            let task = self.queue.pick(self.now, || true).expect("tasks come back");
            self.now += ns(&task);
            self.queue.finish(self.now, |ns| ns, &self.weights);
            self.push(task);
        }
    }

    fn served(&self, tenant: usize) -> u64 {
        let (services, _) = self.queue.services(tenant, 1);
        services.first().map_or(0, |(_, service)| service.run_ns)
    }
}

#[test]
fn service_divides_three_to_one_by_weight() {
    let mut core = Core::new(&[300, 100]);
    for number in 0..8 {
        core.push(work(Class::Normal, number % 2, number));
    }
    // The favoured tenant has the longer tasks: weights divide time, not turns.
    core.saturate(1_000_000_000, |task| {
        5_000 + 40_000 * (1 - task.tenant as u64)
    });
    let ratio = core.served(0) as f64 / core.served(1) as f64;
    assert!((2.85..=3.15).contains(&ratio), "{ratio}");
}

#[test]
fn tasks_of_a_tenant_run_in_the_order_in_which_they_came() {
    let mut core = Core::new(&[100, 100]);
    for number in 0..20 {
        core.push(work(Class::Normal, number % 2, number));
    }
    let mut last = [0, 0];
    while let Some(task) = core.run(10_000) {
        assert!(task.number >= last[task.tenant]);
        last[task.tenant] = task.number;
    }
    assert_eq!(last, [18, 19]);
}

#[test]
fn a_quiet_tenant_waits_for_two_tasks_of_sixty_four_greedy_streams_at_most() {
    let mut core = Core::new(&[100, 100]);
    for number in 0..64 {
        core.push(work(Class::Normal, 0, number));
    }
    for round in 1..100 {
        core.saturate(round * 10_000_000, |_| 50_000);
        core.push(work(Class::Normal, 1, 1000));
        let came = core.now;
        loop {
            let task = core.run(50_000).expect("greedy tasks are left");
            if task.tenant == 1 {
                break;
            }
            core.push(task);
        }
        assert!(core.now - came <= 3 * 50_000, "{}", core.now - came);
    }
}

#[test]
fn realtime_runs_first_and_idle_last() {
    let mut core = Core::new(&[100]);
    for (number, class) in [Class::Idle, Class::Normal, Class::Realtime]
        .iter()
        .enumerate()
    {
        core.push(work(*class, 0, number));
        core.push(work(*class, 0, number + 10));
    }
    let order: Vec<_> = std::iter::from_fn(|| core.run(10))
        .map(|task| task.number)
        .collect();
    assert_eq!(order, [2, 12, 1, 11, 0, 10]);
}

#[test]
fn idle_work_gets_a_fiftieth_of_a_saturated_core() {
    for ns in [1_000, 20_000, 3_000_000] {
        let mut core = Core::new(&[100, 100]);
        core.push(work(Class::Normal, 0, 0));
        core.push(work(Class::Idle, 1, 1));
        core.saturate(20_000_000_000, |_| ns);
        let share = core.served(1) as f64 / core.now as f64;
        assert!((0.018..=0.0215).contains(&share), "{ns} ns a run: {share}");
    }
}

#[test]
fn idle_work_waits_while_another_core_has_user_work() {
    let mut core = Core::new(&[100]);
    core.push(work(Class::Idle, 0, 0));
    assert_eq!(core.queue.pick(0, || false), None);
    assert!(core.queue.pick(0, || true).is_some());
}

#[test]
fn a_weight_that_changes_divides_from_then_on() {
    let mut core = Core::new(&[100, 100]);
    core.push(work(Class::Normal, 0, 0));
    core.push(work(Class::Normal, 1, 1));
    core.saturate(100_000_000, |_| 10_000);
    core.weights.0[0] = 400;
    let before = (core.served(0), core.served(1));
    core.saturate(600_000_000, |_| 10_000);
    let ratio = (core.served(0) - before.0) as f64 / (core.served(1) - before.1) as f64;
    assert!((3.8..=4.2).contains(&ratio), "{ratio}");
}

#[test]
fn a_tenant_that_leaves_with_debt_keeps_it_when_it_returns() {
    let mut core = Core::new(&[100, 100]);
    core.push(work(Class::Normal, 0, 0));
    // Tenant 1 runs 1 ms at a time and leaves after each; the other runs 10 us.
    while core.now < 2_000_000_000 {
        if core.queue.user_len() < 2 {
            core.push(work(Class::Normal, 1, 1));
        }
        let task = core
            .queue
            .pick(core.now, || true)
            .expect("tenant 0 has work");
        core.now += if task.tenant == 1 { 1_000_000 } else { 10_000 };
        core.queue.finish(core.now, |ns| ns, &core.weights);
        if task.tenant == 0 {
            core.push(task);
        }
    }
    let share = core.served(1) as f64 / core.now as f64;
    assert!((0.45..=0.73).contains(&share), "{share}");
}

#[test]
fn unqueued_service_counts_towards_the_share() {
    let mut core = Core::new(&[100, 100]);
    core.push(work(Class::Normal, 0, 0));
    core.push(work(Class::Normal, 1, 1));
    let mut direct = 0;
    while core.now < 1_000_000_000 {
        let task = core.run(10_000).expect("tasks come back");
        core.push(task);
        // Half of tenant 0's work is served directly.
        if core.now.is_multiple_of(40_000) {
            core.queue.serve(0, 10_000, 1, &core.weights);
            core.now += 10_000;
            direct += 10_000;
        }
    }
    assert!(direct > 100_000_000);
    let ratio = core.served(0) as f64 / core.served(1) as f64;
    assert!((0.95..=1.05).contains(&ratio), "{ratio}");
}

#[test]
fn a_thief_takes_the_oldest_half_and_leaves_tasks_with_affinity() {
    let mut core = Core::new(&[100, 100, 100]);
    for number in 0..12 {
        core.now = number as u64;
        let mut task = work(Class::Normal, number % 3, number);
        task.is_affine = number % 3 == 2;
        core.push(task);
    }
    let mut stolen = Vec::new();
    assert!(!core.queue.steal(false, &mut stolen));
    let indexes: Vec<_> = stolen.iter().map(|ready| ready.task.number).collect();
    assert_eq!(indexes, [0, 1, 3, 4, 6, 7]);
    stolen.clear();
    core.queue.steal(false, &mut stolen);
    core.queue.steal(false, &mut stolen);
    assert_eq!(core.queue.len(), 4);
    assert!(core.queue.steal(false, &mut stolen), "the rest stays");
    assert!(
        !core.queue.steal(true, &mut stolen),
        "unless the core is behind"
    );
    assert_eq!(core.queue.len(), 3, "one at a time");
}

#[test]
fn stolen_and_local_runs_together_divide_by_weight() {
    let mut core = Core::new(&[300, 100]);
    let mut served = [0u64; 2];
    for number in 0..64 {
        for tenant in 0..2 {
            core.push(TestTask {
                is_affine: true,
                ..work(Class::Normal, tenant, number)
            });
        }
    }
    // A thief runs two of every five tasks; each comes back when it has run.
    for round in 0..20_000 {
        let next = match round % 5 {
            0 | 2 => {
                let mut stolen = Vec::new();
                core.queue.steal(true, &mut stolen);
                assert_eq!(stolen.len(), 1, "one at a time");
                stolen.pop().map(|ready| ready.task)
            }
            _ => core.run(10_000),
        };
        let next = next.expect("all are here");
        served[next.tenant] += 1;
        core.push(next);
    }
    let ratio = served[0] as f64 / served[1] as f64;
    assert!((2.9..=3.1).contains(&ratio), "{served:?}");
}

#[test]
fn closing_a_queue_returns_all_its_tasks() {
    let mut core = Core::new(&[100]);
    for class in Class::ALL {
        core.push(work(class, 0, 0));
    }
    assert_eq!(core.queue.close().len(), 3);
    let task = work(Class::Normal, 0, 9);
    let ready = Ready {
        task: task.clone(),
        since: 0,
    };
    assert_eq!(core.queue.push(ready, &core.weights), Err(task));
    assert_eq!(core.queue.len(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Tenants that always have work get service by weight, whatever their run lengths, while
    /// others come and go.
    #[test]
    fn shares_follow_weights(
        weights in prop::collection::vec(1u32..=100, 2..6),
        lengths in prop::collection::vec(1_000u64..200_000, 6),
        visitors in prop::collection::vec((0u64..2_000, 1_000u64..500_000), 0..60),
    ) {
        let count = weights.len();
        let table: Vec<u32> = weights.iter().map(|weight| weight * 100).chain([100]).collect();
        let mut core = Core::new(&table);
        for tenant in 0..count {
            core.push(work(Class::Normal, tenant, tenant));
        }
        let mut visits = visitors.clone();
        visits.sort();
        while core.now < 4_000_000_000 {
            if let Some(&(at, _)) = visits.first() && core.now >= at * 1_000_000 {
                visits.remove(0);
                core.push(work(Class::Normal, count, 99));
            }
            let task = core.queue.pick(core.now, || true).expect("tasks come back");
            core.now += lengths[task.tenant.min(5)];
            core.queue.finish(core.now, |ns| ns, &core.weights);
            if task.tenant < count {
                core.push(task);
            }
        }
        let total: u32 = weights.iter().sum();
        let served: u64 = (0..count).map(|tenant| core.served(tenant)).sum();
        for (tenant, weight) in weights.iter().enumerate() {
            let due = served as f64 * f64::from(*weight) / f64::from(total);
            let got = core.served(tenant) as f64;
            // Lag is at most the longest run or a slice, each way.
            let slack = 0.02 * due + 3.0 * 200_000.0;
            prop_assert!((got - due).abs() <= slack, "{tenant}: {got} of {due}");
        }
    }

    /// Each task comes out exactly once, thieves included.
    #[test]
    fn every_task_comes_out_once(
        steps in prop::collection::vec((0u8..8, 0usize..4, any::<bool>()), 1..200),
    ) {
        let mut core = Core::new(&[1, 100, 300, 10_000]);
        let (mut put, mut seen) = (0, Vec::new());
        for (what, tenant, is_affine) in steps {
            match what {
                0..=3 => {
                    let class = [Class::Normal, Class::Normal, Class::Realtime, Class::Idle];
                    let mut task = work(class[usize::from(what)], tenant, put);
                    task.is_affine = is_affine;
                    put += 1;
                    core.push(task);
                }
                4 => {
                    let mut stolen = Vec::new();
                    core.queue.steal(is_affine, &mut stolen);
                    seen.extend(stolen.into_iter().map(|ready| ready.task.number));
                }
                _ => seen.extend(core.run(1000 << tenant).map(|task| task.number)),
            }
            prop_assert_eq!(core.queue.len() + seen.len(), put);
        }
        seen.extend(std::iter::from_fn(|| core.run(1000)).map(|task| task.number));
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..put).collect::<Vec<_>>());
    }
}
