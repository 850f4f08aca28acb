puts "hello from Ruby"
