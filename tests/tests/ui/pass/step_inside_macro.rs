use durable::step;

macro_rules! steps {
    ($($name:ident: $argument:ty => $output:ty { $value:expr }),*) => {
        $(
            #[step(retry)]
            async fn $name(argument: &$argument) -> $output {
                let _ = argument;
                $value
            }
        )*
    };
}

steps!(one: str => u32 { 1 }, two: [u8] => Result<String, String> { Ok(String::new()) });

macro_rules! flows {
    ($name:ident, $argument:ident: $ty:ty, $body:block) => {
        #[durable::workflow]
        async fn $name($argument: $ty) -> $ty {
            let value = $body;
            value
        }
    };
}

flows!(flow, _number: u32, { 3 });

fn main() {
    let _futures = (one(""), two(&[]), flow::start(3));
}
