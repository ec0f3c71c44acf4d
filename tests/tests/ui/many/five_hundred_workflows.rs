macro_rules! five {
    ($($inner:tt)*) => {
        pub mod a { $($inner)* }
        pub mod b { $($inner)* }
        pub mod c { $($inner)* }
        pub mod d { $($inner)* }
        pub mod e { $($inner)* }
    };
}

macro_rules! flows {
    ($($name:ident)*) => {
        #[durable::step]
        pub async fn summarize(doc: &str, limit: u32) -> anyhow::Result<String> {
            std::future::ready(()).await;
            Ok(format!("{doc}{limit}"))
        }

        $(
            #[durable::workflow]
            pub async fn $name(doc: String, limit: u32) -> anyhow::Result<String> {
                Ok(summarize(&doc, limit).await?)
            }
        )*
    };
}

five! { five! { five! { flows! { one two three four } } } }

fn main() {
    let _start = a::b::c::one::start(String::new(), 3);
}
