console.log("hello from JavaScript");
