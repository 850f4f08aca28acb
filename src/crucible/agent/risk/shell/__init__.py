"""Shell programs: split into their simple commands by syntax tree, followed by what is known of their words."""
