"""What nobody sane would send: properties that hold for any bytes; make fuzz goes on longer."""
