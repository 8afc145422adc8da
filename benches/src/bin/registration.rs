//! What registration costs.
fn main() -> benches::Result<()> {
    use benches::registration::*;
    use benches::workshop::*;
    let w = Workshop::open("registration")?;
    let c = crates::Compared::generate(&w)?;
    for e in [rebuild::Edit::Main, rebuild::Edit::Module] {
        let r = rebuild::Rebuilds::measure(&c, e, Profile::Debug, 5)?;
        println!("{e:?} {} {} {}", r.annotated.median(), r.bare.median(), r.ratio());
    }
    for p in [Profile::Debug, Profile::Release, Profile::Stripped] {
        let s = size::Sizes::measure(&c, p)?;
        println!("{p:?} {} {} {}", s.annotated, s.bare, s.none);
    }
    for t in [startup::Task::Idle, startup::Task::Count] {
        let i = startup::instructions(&c, t)?.unwrap();
        println!("{} {} {} {:?}", i.annotated, i.bare, i.none, i.a_kernel());
        let i = startup::times(&c, t, 300)?;
        for s in [i.annotated, i.bare, i.none] {
            println!("  {:.0} us +- {:.1}", s.median() * 1e6, s.uncertainty() * 1e6);
        }
    }
    let i = image::Copies::count(&w, Profile::Debug)?;
    println!("{} {}", i.count, i.program);
    Ok(())
}
