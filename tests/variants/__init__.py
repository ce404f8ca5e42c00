"""Servers that conform and yet are not like beanstalkd: the suite must not fail them."""
