fn main() {
    println!("hello from Rust");
}
